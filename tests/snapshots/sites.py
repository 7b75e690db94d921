"""The places in the scripted job's code: a training script, a model, and what of PyTorch lies between."""

from __future__ import annotations

from oomph.memory.allocator.settings import AllocatorSettings
from tests.snapshots.frames import PROJECT, Line, Site, torch, user

#: Settings under which expandable segments grow.
EXPANDABLE = AllocatorSettings(expandable_segments=True)

_MODULE = user("<module>", "train.py", 140)
_CALL = (
    torch("_call_impl", "nn/modules/module.py", 1790),
    torch("_wrapped_call_impl", "nn/modules/module.py", 1779),
)


def _op(name: str) -> tuple[str, ...]:
    return (
        "at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)",
        f"at::_ops::{name}::redispatch(c10::DispatchKeySet, at::Tensor const&)",
        f"torch::autograd::VariableType::(anonymous namespace)::{name}(c10::DispatchKeySet, at::Tensor const&)",
        f"at::_ops::{name}::call(at::Tensor const&)",
        f"torch::autograd::THPVariable_{name}(_object*, _object*, _object*)",
    )


def _caller(number: int) -> tuple[tuple[str, str, int], ...]:
    """Who calls the model on that line of train.py: the training loop, or from line 64 to 69 what evaluates."""
    if 64 <= number < 70:
        return (
            user("evaluate", "train.py", number),
            torch("decorate_context", "utils/_contextlib.py", 120),
            user("main", "train.py", 57),
            _MODULE,
        )
    return (user("main", "train.py", number), _MODULE)


def line(file: str, number: int) -> Line:
    """A line of the user's code, as truths name it."""
    return (f"{PROJECT}/{file}", number)


def script(number: int, *inner: tuple[str, str, int], op: str = "empty") -> Site:
    """A call on that line of train.py, and what it called, innermost first."""
    return Site((*inner, *_caller(number)), _op(op))


def load() -> Site:
    """Parameters on their way to the device."""
    return script(
        24,
        torch("convert", "nn/modules/module.py", 1369),
        torch("_apply", "nn/modules/module.py", 955),
        torch("_apply", "nn/modules/module.py", 928),
        torch("to", "nn/modules/module.py", 1381),
        op="to",
    )


def batch() -> Site:
    return script(52, op="to")


def block(
    number: int, op: str = "mul", *, called_at: int = 54, inner: tuple[tuple[str, str, int], ...] = ()
) -> Site:
    """Forward of one layer, on that line of model.py; train.py calls the model on line 54 (64: evaluates)."""
    return Site(
        (
            *inner,
            user("forward", "model.py", number),
            *_CALL,
            user("forward", "model.py", 96),
            *_CALL,
            *_caller(called_at),
        ),
        _op(op),
    )


def linear(number: int, called_at: int = 54) -> Site:
    return block(
        number,
        "linear",
        called_at=called_at,
        inner=(torch("forward", "nn/modules/linear.py", 134), *_CALL),
    )


def head(called_at: int = 54) -> Site:
    """The logits."""
    return Site(
        (
            torch("forward", "nn/modules/linear.py", 134),
            *_CALL,
            user("forward", "model.py", 104),
            *_CALL,
            *_caller(called_at),
        ),
        _op("linear"),
    )


def loss(called_at: int = 55, op: str = "log_softmax") -> Site:
    return script(called_at, torch("cross_entropy", "nn/functional.py", 3462), op=op)


def seed_gradient() -> Site:
    return script(
        58,
        torch("_make_grads", "autograd/__init__.py", 231),
        torch("backward", "autograd/__init__.py", 374),
        torch("backward", "_tensor.py", 631),
        op="ones_like",
    )


def backward(node: str = "MmBackward0") -> Site:
    """The autograd thread: no Python there."""
    native = (
        "at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)",
        "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)",
        f"torch::autograd::generated::{node}::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
    )
    return Site((), native, autograd=True)


def _workspace(native: tuple[str, ...]) -> tuple[str, ...]:
    return (
        "at::cuda::setWorkspaceForHandle(cublasContext*, c10::cuda::CUDAStream)",
        "at::cuda::getCurrentCUDABlasHandle()",
        "void at::cuda::blas::gemm_internal_cublas<float, float>(char, char, long, long, long)",
        *native[1:],
    )


def workspace(autograd: bool = False) -> Site:
    """cuBLAS's scratch memory, made at the first matrix product of a thread."""
    where = backward() if autograd else linear(41)
    return Site(where.python, _workspace(where.native), where.autograd)


_STEP = (
    torch("step", "optim/adamw.py", 243),
    torch("_use_grad", "optim/optimizer.py", 81),
    torch("wrapper", "optim/optimizer.py", 533),
)


def optimizer_state(number: int = 146) -> Site:
    return script(60, torch("_init_group", "optim/adamw.py", number), *_STEP, op="zeros_like")


def optimizer_scratch() -> Site:
    return script(
        60,
        torch("_multi_tensor_adamw", "optim/adamw.py", 603),
        torch("adamw", "optim/adamw.py", 792),
        *_STEP,
        op="_foreach_sqrt",
    )


def step_end() -> Site:
    return script(61, torch("zero_grad", "optim/optimizer.py", 1012), op="zero_")


def empty_cache(number: int = 75) -> Site:
    return script(number, torch("empty_cache", "cuda/memory.py", 224))


def bucket() -> Site:
    """DDP's communication buffers."""
    return Site(
        script(30, torch("__init__", "nn/parallel/distributed.py", 860)).python,
        (
            "c10d::Reducer::initialize_buckets(std::vector<std::vector<unsigned long> >)",
            "c10d::Reducer::Reducer(std::vector<at::Tensor>, std::vector<std::vector<unsigned long> >)",
        ),
    )
