"""Operators whose result depends on data that a fake tensor does not have: reading a number, counting what is true.

Where the values are known (see `values`), the answer is the real one. Elsewhere something has to stand in, and it is
said so: numbers read as 1 (False for a truth value: a loop that waits for `bad.any()` must end), and whatever is
counted is counted in full, because too much memory is a better answer than too little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oomph.tracing.recorder import ctc, recurrent, words
from oomph.tracing.recorder.truths import same
from oomph.tracing.recorder.values import attach, value_of

Handler = Callable[..., Any]
NUMBERS_ARE_ONE = (
    "Numbers that the GPU would have computed and the script reads (`.item()`, a printed loss) are 1 and finite, truth "
    "values False, those of `all()` True."
)


def handlers() -> dict[str, Handler]:
    """By operator's name. A handler returns NotImplemented for what the usual way can do."""
    return {
        "aten._local_scalar_dense": _item,
        "aten.item": _item,
        "aten._to_copy": _to_host,
        "aten.equal": _equal,
        "aten.allclose": _allclose,
        "aten._pack_padded_sequence": _pack,
        "aten._ctc_loss": ctc.handle,
        "aten.convolution": words.convolution,
        "aten.prod": _product,
        "aten.cumprod": _product,
        "aten._cudnn_rnn": recurrent.forward,
        "aten._cudnn_rnn_backward": recurrent.backward,
        "aten.is_nonzero": _item,
        "aten.nonzero": _nonzero,
        "aten.masked_select": _masked_select,
        "aten.index": _index,
        "aten._unique2": _unique,
        "aten.unique_dim": _unique,
        "aten.unique_consecutive": _unique,
        "aten.repeat_interleave": _repeat_interleave,
        "aten.bincount": _bincount,
        "aten.is_pinned": _not_pinned,
        "aten._pin_memory": _pin,
        # Waiting gives the tensor back that was waited for (torch/csrc/distributed/c10d/Functional.cpp).
        "_c10d_functional.wait_tensor": _pin,
        "c10d_functional.wait_tensor": _pin,
        "aten._assert_async": _nothing,
        "aten._assert_scalar": _nothing,
    }


def _product(mode: Any, _func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    """torch/csrc/autograd/FunctionsManual.cpp, prod_backward and cumprod_backward: under a dispatch mode both take the
    way that is there for subclasses of tensors. It cannot be told from outside which way a GPU would go."""
    import torch

    tensor = args[0]
    if tensor.requires_grad and torch.is_grad_enabled() and tensor.device.type == "cuda":
        mode.recorder.assume(
            "Backward of `prod` and `cumprod` is traced as the way that PyTorch has for subclasses of tensors, which "
            "needs more memory (two to three times as much) than the one that a GPU takes where no element is zero."
        )
    return NotImplemented


def indexing() -> frozenset[Any]:
    """Operators that take indices of another device than what they index."""
    import torch

    aten = torch.ops.aten
    packets = (aten.index, aten._unsafe_index, aten.index_put, aten.index_put_, aten._index_put_impl_)  # noqa: SLF001
    return frozenset(getattr(packet, name) for packet in packets for name in packet.overloads())


def with_indices_there(fakes: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of indexing with all indices on the device of what is indexed, where the kernel brings them
    (IndexingUtils.h, make_info; cuda/Indexing.cu, computeLinearIndex). Fake kernels want them on one device."""
    import torch

    target = getattr(args[0], "fake_device", None)
    if target is None or target.type != "cuda" or not any(_on_cpu(one) for one in args[1]):
        return args
    move = torch.ops.aten._to_copy.default  # noqa: SLF001 - the operator that the kernel's own copy is
    moved = [
        fakes.run(move, (type(one),), (one,), {"device": target}) if _on_cpu(one) else one for one in args[1]
    ]
    return (args[0], moved, *args[2:])


def _on_cpu(index: Any) -> bool:
    return index is not None and getattr(index, "fake_device", index.device).type == "cpu"


def stand_in(tensor: Any) -> Any:
    """The number that stands for one that only a GPU knows."""
    import torch

    if tensor.dtype is torch.bool:
        return False
    return 1.0 if tensor.is_floating_point() or tensor.is_complex() else 1


def _item(mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    fake = hasattr(args[0], "fake_device")
    if fake and args[0].fake_device.type == "cuda":
        mode.recorder.synchronize(args[0].fake_device.index or 0)
    value = value_of(args[0]) if fake else args[0]
    if value is not None:
        return func(value, **kwargs)
    mode.recorder.assume(NUMBERS_ARE_ONE)
    return stand_in(args[0])


def _to_host(mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """A copy from the GPU to the host, which waits for it. Known values arrive in a real tensor: C++ code that reads
    them (the state of a generator) can take no other."""
    tensor, device = args[0], kwargs.get("device")
    if device is None or device.type != "cpu" or getattr(tensor, "fake_device", device).type != "cuda":
        return NotImplemented
    if not kwargs.get("non_blocking"):
        mode.recorder.synchronize(tensor.fake_device.index or 0)
    value = value_of(tensor)
    if value is None:
        return NotImplemented
    return func(value, **{key: one for key, one in kwargs.items() if key != "pin_memory"})


def _equal(_mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    values = [value_of(one) if hasattr(one, "fake_device") else one for one in args]
    if any(value is None for value in values):
        return bool(args[0].shape == args[1].shape and args[0].dtype == args[1].dtype)
    return func(*values, **kwargs)


def _allclose(mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    values = [value_of(one) if hasattr(one, "fake_device") else one for one in args]
    if any(value is None for value in values):
        mode.recorder.assume(NUMBERS_ARE_ONE)
        return True
    return func(*values, **kwargs)


def _pack(mode: Any, _func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    """Sequences step by step: stretches of as many sequences are copied, then put together; how many sequences have
    each step is a tensor on the host (aten/src/ATen/native/PackedSequence.cpp, _pack_padded_sequence)."""
    import torch

    tensor, lengths, batch_first = args
    known = value_of(lengths) if hasattr(lengths, "fake_device") else lengths
    if known is None:
        mode.recorder.assume("Sequences whose lengths only a GPU knows are as long as their batch.")
        known = torch.full(tuple(lengths.shape), int(tensor.shape[1 if batch_first else 0]))
    sizes: list[int] = []
    with mode:
        steps = tensor.transpose(0, 1) if batch_first else tensor
        pieces = []
        lengths_up = known.tolist()[::-1]
        for shorter, length in enumerate(lengths_up):
            if length > len(sizes):
                there = len(lengths_up) - shorter
                piece = steps[len(sizes) : length].narrow(1, 0, there)
                if not piece.is_contiguous():
                    piece = piece.clone(memory_format=torch.contiguous_format)
                pieces.append(piece.view(-1, *steps.shape[2:]))
                sizes += [there] * (length - len(sizes))
        return torch.cat(pieces), torch.tensor(sizes, dtype=torch.int64)


def _fresh(mode: Any, like: Any, shape: tuple[int, ...], value: Any = None, dtype: Any = None) -> Any:
    """A new fake tensor of this shape on the device of `like`, with its memory."""
    import torch

    function = torch.ops.aten.empty.memory_format
    kwargs = {"dtype": dtype or like.dtype, "device": like.fake_device}
    operator = mode.operators.get(function)
    if operator is None:
        operator = mode.operators[function] = mode.kernels.operator(function)
    out = mode.kernels.run(mode, function, operator, (), (list(shape),), kwargs)
    if value is not None:
        attach(out, value)
    return out


def _nonzero(mode: Any, func: Any, operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    import torch

    tensor = args[0]
    value = value_of(tensor)
    found = None if value is None else func(value)
    known = same(tensor)
    if found is not None:
        count = found.shape[0]
    elif known is not None:
        count = tensor.numel() if known else 0
    else:
        count = tensor.numel()
        _say_all(mode)
    mode.kernels.scratch(func, operator, args, {})
    return _fresh(mode, tensor, (count, tensor.dim()), found, torch.int64)


def _say_all(mode: Any) -> None:
    mode.recorder.assume(
        "Where the number of selected elements depends on values that only a GPU computes, all were taken."
    )


def _masked_select(mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kw: Any) -> Any:
    """On a GPU it is indexing with the mask (aten/src/ATen/native/cuda/IndexKernel.cpp, masked_select_out_cuda_impl):
    both are expanded, and the places of what is true are found first."""
    import torch

    tensor, mask = args
    value, known = value_of(tensor), value_of(mask)
    found = func(value, known) if value is not None and known is not None else None
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    with mode:
        places = torch.ops.aten.nonzero(mask.expand(shape))
    return _fresh(mode, tensor, (int(places.shape[0]),), found)


def _index(mode: Any, func: Any, operator: Any, types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """`x[mask]`: the mask becomes indices first, as in aten/src/ATen/native/IndexingUtils.h (expandTensors)."""
    import torch

    tensor, indices = args[0], args[1]
    masks = (torch.bool, torch.uint8)
    if not any(one is not None and one.dtype in masks for one in indices):
        return NotImplemented
    expanded: list[Any] = []
    with mode:
        for one in indices:
            if one is not None and one.dtype in masks:
                expanded.extend(torch.ops.aten.nonzero(one).unbind(1))
            else:
                expanded.append(one)
    return mode.run(func, operator, types, (tensor, expanded), kwargs)


def _unique(mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    import torch

    tensor = args[0]
    value = value_of(tensor)
    if value is not None:
        results = func(value, *args[1:], **kwargs)
        return tuple(_fresh(mode, tensor, tuple(one.shape), one, one.dtype) for one in results)
    _say_all(mode)
    count = tensor.numel()
    return (
        _fresh(mode, tensor, (count,)),
        _fresh(mode, tensor, tuple(tensor.shape), dtype=torch.int64),
        _fresh(mode, tensor, (count,), dtype=torch.int64),
    )


def _repeat_interleave(
    mode: Any, func: Any, operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any
) -> Any:
    if operator.full != "aten.repeat_interleave.Tensor" or kwargs.get("output_size") is not None:
        return NotImplemented
    repeats = args[0]
    value = value_of(repeats)
    found = None if value is None else func(value)
    if found is None:
        mode.recorder.assume("Repeats that only a GPU knows are 1 each.")
    count = repeats.numel() if found is None else found.shape[0]
    return _fresh(mode, repeats, (count,), found)


def _bincount(mode: Any, func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    import torch

    tensor = args[0]
    value = value_of(tensor)
    if value is not None and len(args) < 2 and not kwargs.get("weights"):
        found = func(value, **kwargs)
        return _fresh(mode, tensor, tuple(found.shape), found, found.dtype)
    least = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
    mode.recorder.assume("The largest index that `bincount` meets is below its minlength.")
    return _fresh(mode, tensor, (max(least, 1),), dtype=torch.int64)


def _not_pinned(*_: Any) -> bool:
    return False


def _pin(_mode: Any, _func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    return args[0]


def _nothing(*_: Any) -> None:
    return None
