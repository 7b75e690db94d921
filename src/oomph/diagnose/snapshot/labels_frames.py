"""What one frame of a stack says, told once per function and file.

A trace has thousands of stacks and a few hundred different frames. Python frames go through the same markers as those
of a traceback (`diagnose.phases.markers`); frames of C++ have markers of their own. Names are those of PyTorch's
sources; those marked "seen" stand in real snapshots.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.model import Certainty
from oomph.diagnose.phases.markers import Marker, marker_of
from oomph.diagnose.snapshot.places import is_generated, is_python, is_users
from oomph.evidence.model import Frame as TracebackFrame
from oomph.memory.categories import Category
from oomph.memory.stacks import Frame
from oomph.phases import Phase

#: torch/csrc/autograd/engine.cpp and python_engine.cpp (seen): whatever is inside runs in backward.
_ENGINE = re.compile(
    r"torch::autograd::(?:python::Python)?Engine::|torch::autograd::Node::operator\(\)|THPEngine_"
)
#: The engine's threads: every frame of such a stack is inside the engine.
_ENGINE_THREAD = re.compile(
    r"torch::autograd::(?:python::Python)?Engine::thread_(?:init|main)|reentrant_thread_init"
)
_STD_THREAD = re.compile(r"execute_native_thread_routine$")
#: torch/csrc/autograd/functions/accumulate_grad.{h,cpp} (seen): makes the tensor that `.grad` holds.
_ACCUMULATE = re.compile(r"torch::autograd::(?:\(anonymous namespace\)::)?AccumulateGrad")
#: aten/src/ATen/cuda/CublasHandlePool.cpp (seen): what these allocate is the handle's workspace.
_WORKSPACE = re.compile(
    r"at::cuda::(?:\(anonymous namespace\)::)?(?:getNewWorkspace|setWorkspaceForHandle|getCUDABlasLtWorkspace\w*|"
    r"getNewCUDABlasLtWorkspace|getCurrentCUDABlasHandle|getCUDABlasWorkspace\w*)\("
)
#: aten/src/ATen/autocast_mode.{h,cpp} (seen): copies an argument to the type that the operator runs in.
_CAST = re.compile(r"at::autocast::cached_cast\(")
#: torch/csrc/distributed/c10d: the reducer's buckets, NCCL's flattened inputs and outputs.
_COMMUNICATION = re.compile(
    r"c10d::(?:Reducer|ProcessGroup\w*|BroadcastWork|broadcast_coalesced|ops::|_?all_?reduce|_?all_?gather|"
    r"_?reduce_scatter|symmetric_memory)|c10d_functional::|_c10d_functional"
)
#: torch/csrc/api: training without Python.
_CPP_OPTIMIZER = re.compile(r"torch::optim::\w+::step|at::_ops::_fused_(?:adamw?|sgd|adagrad)_?::")
_CPP_FORWARD = re.compile(
    r"torch::nn::\w+Impl::forward|torch::jit::\w*Method::operator\(\)|torch::jit::Module::forward"
)
_CPP_LOAD = re.compile(r"torch::jit::load\(|torch::nn::Module::to\b|torch::load<")
#: Operators of layers: only a hint, and the only one in code that calls functions outside modules.
_LAYER = re.compile(
    r"at::_ops::(?:_?convolution|conv[123]d|linear|addmm|bmm|matmul|mm|einsum|embedding|layer_norm|native_layer_norm|"
    r"batch_norm|_?scaled_dot_product_\w*attention|relu|gelu|silu|dropout|native_dropout|_?softmax|_?log_softmax|"
    r"cross_entropy_loss|nll_loss\w*|max_pool\w+|avg_pool\w+)::(?:call|redispatch)\b"
)

#: Communication in Python: FSDP 1 and 2, DDP, DeepSpeed's buckets, functional collectives, Megatron's buffers.
_PY_COMMUNICATION_FILE = re.compile(
    r"torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$|/_fsdp_collectives\.py$"
)
_PY_COMMUNICATION = re.compile(
    r"_?all_gather\w*$|_?allgather\w*$|_?reduce_scatter\w*$|_?all_?reduce\w*$|_alloc_padded_unsharded_flat_param$|"
    r"_?alloc_all_gather_outputs$|init_all_gather_outputs$|foreach_all_gather$|foreach_reduce$|allreduce_bucket$|"
    r"_?reduce_ipg_grads$|average_tensor$|_?partition_and_reduce\w*$|_broadcast_coalesced$"
)
_COMMUNICATES = re.compile(r"/(?:fsdp|_fsdp|_composable|deepspeed|megatron|distributed|horovod|colossalai)/")

_OPTIMIZER_STATE = re.compile(
    r"_init_group$|init_state$|get_state_buffer$|initialize_optimizer_states$|_init_state$"
)
_OPTIMIZER_LOAD = re.compile(
    r"(?:load_state_dict|__setstate__|_process_value_according_to_param_policy|_cast)$"
)
_OPTIMIZER_FILE = re.compile(r"torch/optim/\w+\.py$|bitsandbytes/optim/\w+\.py$|/optimizers?/\w+\.py$")
_TORCH_OPTIMIZER = re.compile(
    r"torch/optim/(?!optimizer\.py|lr_scheduler)\w+\.py$|apex/optimizers/|bitsandbytes/optim/"
)
_USERS_OPTIMIZER = re.compile(r"/(?:optim|optimi[sz]ers?)\.py$|/(?:my|custom)_?optim\w*\.py$")
_MODULE = re.compile(r"torch/nn/modules/module\.py$")
_MODULE_MOVE = re.compile(r"(?:convert|_apply)$|to_empty$")
_LAYER_FILE = re.compile(r"torch/nn/(?:modules/(?!module|loss)\w+|parameter|init)\.py$")
_MAKES = re.compile(r"__init__$|_?reset_parameters$|_init_weights$")
_WEIGHTS = re.compile(
    r"_load_state_dict_into_\w+$|_load_pretrained_model$|from_pretrained$|set_module_tensor_to_device$|"
    r"set_module_quantized_tensor_to_device$|create_quantized_param$|materialize\w*$|_?init_flat_param\w*$|"
    r"flatten_tensors\w*$|_init_sharded_param$|_load_from_state_dict$|load_lora_weights$|load_adapter$"
)
#: nn.DataParallel copies the parameters to every device in every forward.
_REPLICATE = re.compile(r"torch/nn/parallel/replicate\.py$")
#: Gradient clipping, and the gradient of the loss itself: nothing that they allocate is kept for later.
_PASSING = re.compile(
    r"_make_grads$|_?clip_grad\w*$|_get_total_norm$|clip_gradients$|get_grad_norm\w*$|_?unscale_\w*$"
)
_TRAINS = re.compile(r"_?(?:train|fit|training)(?:_\w+)?$|run_epoch$|\w+_train$|_?training_step$")


@dataclass(frozen=True)
class Mark:
    """What a frame says. `pair` is its marker for the walk, if it has one. `category` is what the frame speaks for
    whatever is around it, with its certainty; the flags are named after what the frame is."""

    python: bool = False
    users: bool = False
    pair: tuple[TracebackFrame, Marker] | None = None
    category: Category = Category.UNKNOWN
    certainty: Certainty = Certainty.POSSIBLE
    engine: bool = False
    engine_thread: bool = False
    std_thread: bool = False
    layer: bool = False
    makes: bool = False  # an __init__ of the user's own
    makes_optimizer: bool = False  # the same in a file named for an optimizer
    no_grad: bool = False
    passing: bool = False
    trains: bool = False
    cast: bool = False  # autocast's copy of an argument
    optimizer_code: bool = False  # inside an optimizer of a library, which keeps nothing but its state


NOTHING = Mark()


#: What is read of a function's name and of a file's. A template's name can be kilobytes; what it is stands in front.
_NAME, _FILE = 600, 300


def mark_of(frame: Frame) -> Mark:
    """What this frame says by its function and file."""
    if len(frame.function) > _NAME or len(frame.file) > _FILE:
        frame = Frame(frame.function[:_NAME], frame.file[-_FILE:], frame.line)
    return _of_python(frame) if is_python(frame) else _of_cpp(frame)


def _of_cpp(frame: Frame) -> Mark:
    function = frame.function
    if _WORKSPACE.search(function):
        return Mark(category=Category.WORKSPACE, certainty=Certainty.CERTAIN)
    if _ACCUMULATE.search(function):
        return Mark(category=Category.GRADIENTS, certainty=Certainty.CERTAIN, engine=True)
    if _ENGINE.search(function):
        return Mark(engine=True, engine_thread=_ENGINE_THREAD.search(function) is not None)
    if _COMMUNICATION.search(function):
        return Mark(category=Category.COMMUNICATION, certainty=Certainty.LIKELY)
    if _CAST.search(function):
        return Mark(cast=True)
    if _STD_THREAD.search(function):
        return Mark(std_thread=True)
    for pattern, phase in (
        (_CPP_OPTIMIZER, Phase.OPTIMIZER),
        (_CPP_FORWARD, Phase.FORWARD),
        (_CPP_LOAD, Phase.LOAD),
    ):
        if pattern.search(function):
            return Mark(pair=(_plain(frame), Marker(phase)))
    return Mark(layer=True) if _LAYER.search(function) else NOTHING


def _of_python(frame: Frame) -> Mark:
    plain = _plain(frame)
    file, function = plain.file, plain.function.rpartition(".")[2] or plain.function
    users = is_users(frame)
    marker = marker_of(plain)
    if marker is None and is_generated(frame):
        marker = Marker(Phase.FORWARD, weak=True)
    category, certainty = _category(file, function)
    return Mark(
        python=True,
        users=users,
        pair=(plain, marker) if marker is not None else None,
        category=category,
        certainty=certainty,
        makes=users and function == "__init__",
        makes_optimizer=users and function == "__init__" and _USERS_OPTIMIZER.search(file) is not None,
        no_grad=file.endswith("torch/utils/_contextlib.py") and function == "decorate_context",
        passing=_PASSING.match(function) is not None,
        trains=_TRAINS.match(function) is not None,
        optimizer_code=_TORCH_OPTIMIZER.search(file) is not None,
    )


def _category(file: str, function: str) -> tuple[Category, Certainty]:
    if _REPLICATE.search(file):
        return Category.PARAMETERS, Certainty.LIKELY
    if _OPTIMIZER_FILE.search(file):
        if _OPTIMIZER_STATE.match(function) or _OPTIMIZER_LOAD.match(function):
            return Category.OPTIMIZER_STATE, Certainty.LIKELY
        return Category.UNKNOWN, Certainty.POSSIBLE
    if _PY_COMMUNICATION_FILE.search(file) or (
        _COMMUNICATES.search(file) and _PY_COMMUNICATION.match(function)
    ):
        return Category.COMMUNICATION, Certainty.LIKELY
    if (_MODULE.search(file) and _MODULE_MOVE.match(function)) or (
        _LAYER_FILE.search(file) and _MAKES.match(function)
    ):
        return Category.PARAMETERS, Certainty.LIKELY
    if _WEIGHTS.match(function):
        return Category.PARAMETERS, Certainty.LIKELY
    return Category.UNKNOWN, Certainty.POSSIBLE


def _plain(frame: Frame) -> TracebackFrame:
    """The frame as the markers of tracebacks take it."""
    return TracebackFrame(file=frame.file.replace("\\", "/"), line=frame.line, function=frame.function)
