"""Which backend `scaled_dot_product_attention` would choose on a GPU.

Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (select_sdp_backend and its checks) and
sdp_utils_cpp.h (check_* of dense inputs), torch 2.5 to 2.14. What cannot be seen here is how PyTorch was built: wheels
for Linux are taken, with flash attention and with the cuDNN that they bring.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oomph.hardware.gpus import Gpu
from oomph.tracing.kernels.arguments import kind


class Backend(Enum):
    """The kernels that PyTorch has; MATH is made of ordinary operators."""

    FLASH = "flash"
    EFFICIENT = "efficient"
    CUDNN = "cudnn"
    MATH = "math"


DEFAULT_ORDER = (Backend.FLASH, Backend.EFFICIENT, Backend.MATH, Backend.CUDNN)
CUDNN_FIRST = (Backend.CUDNN, Backend.FLASH, Backend.EFFICIENT, Backend.MATH)


@dataclass(frozen=True)
class Attention:
    """One call: (batch, heads, length, head size) of query, key and value and their strides, the dtype's short name,
    and what else decides. `mask` is whether there is a mask; `grad` whether a backward pass will follow.
    """

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, str, str]
    mask: bool = False
    dropout: float = 0.0
    causal: bool = False
    grad: bool = False
    grouped: bool = False


@dataclass(frozen=True)
class Switches:
    """What the script allows (torch.backends.cuda.enable_*_sdp, torch.nn.attention.sdpa_kernel), and the order it set;
    None: no order was set."""

    flash: bool = True
    efficient: bool = True
    math: bool = True
    cudnn: bool = True
    order: tuple[Backend, ...] | None = None
    deterministic: bool = False


def described(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, grouped: bool, grad: bool
) -> Attention:
    """The call on these tensors."""
    return Attention(
        _shape(query),
        _shape(key),
        _shape(value),
        (_strides(query), _strides(key), _strides(value)),
        (kind(query), kind(key), kind(value)),
        mask is not None,
        dropout,
        causal,
        grad,
        grouped,
    )


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape)


def _strides(tensor: Any) -> tuple[int, ...]:
    return tuple(int(stride) for stride in tensor.stride())


def switches() -> Switches:
    """What torch's own flags say now."""
    import torch

    def enabled(name: str) -> bool:
        return bool(getattr(torch.backends.cuda, f"{name}_sdp_enabled", lambda: True)())

    ask = getattr(torch._C, "_get_sdp_priority_order", None)  # noqa: SLF001 - public only as a context manager
    order = None if ask is None else _order([int(number) for number in ask()])
    return Switches(
        enabled("flash"),
        enabled("mem_efficient"),
        enabled("math"),
        enabled("cudnn"),
        order,
        torch.are_deterministic_algorithms_enabled()
        and not torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _order(numbers: Sequence[int]) -> tuple[Backend, ...] | None:
    """An order of torch's SDPBackend numbers; None for torch's own."""
    names = {0: Backend.MATH, 1: Backend.FLASH, 2: Backend.EFFICIENT, 3: Backend.CUDNN}
    order = tuple(names[number] for number in numbers if number in names)
    return None if order == DEFAULT_ORDER else order


def prefers_cudnn(gpu: Gpu, torch: tuple[int, int]) -> bool:
    """Whether cuDNN comes first by default: on data-centre Hopper and Blackwell with a cuDNN above 9.15, which wheels
    bring from torch 2.11 on (sdp_utils.cpp, check_prefer_cudnn_attention; pull requests 162073, 170800)."""
    return (
        torch >= (2, 11)
        and gpu.capability in ((9, 0), (10, 0), (10, 3))
        and not os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED")
    )


def choose(
    call: Attention, gpu: Gpu, torch: tuple[int, int], allowed: Switches | None = None
) -> Backend | None:
    """The backend that runs the call; None where PyTorch would raise because none of those that are allowed can."""
    allowed = allowed or Switches()
    order = allowed.order or (CUDNN_FIRST if prefers_cudnn(gpu, torch) else DEFAULT_ORDER)
    able: dict[Backend, Callable[[], bool]] = {
        Backend.FLASH: lambda: allowed.flash and _flash(call, gpu, torch),
        Backend.EFFICIENT: lambda: allowed.efficient and _efficient(call, gpu, torch),
        Backend.CUDNN: lambda: allowed.cudnn and not allowed.deterministic and _cudnn(call, gpu, torch),
        Backend.MATH: lambda: allowed.math,
    }
    return next((backend for backend in order if able[backend]()), None)


def _flash(call: Attention, gpu: Gpu, torch: tuple[int, int]) -> bool:
    size = call.query[-1]
    lengths_differ = len(call.query) == 4 and call.query[2] != call.key[2]
    return (
        _dense(call)
        and not call.mask
        and size == call.key[-1] == call.value[-1]
        and size <= 256
        and (8, 0) <= gpu.capability <= _newest(torch)
        and not (call.grad and _small_shared_memory(gpu, torch) and _too_wide(size, call.dropout))
        and not (call.causal and lengths_differ)
        and _low_precision(call, gpu)
        and _heads_fit(call, grouped=True)
        and _last_is_contiguous(call, singletons=True)
    )


def _efficient(call: Attention, gpu: Gpu, torch: tuple[int, int]) -> bool:
    half = call.dtypes[0] in ("float16", "bfloat16")
    dtypes = ("float16", "float32", "bfloat16") if gpu.capability >= (8, 0) else ("float16", "float32")
    alignment = 4 if gpu.capability >= (8, 0) else 1
    if gpu.capability >= (8, 0) or (gpu.capability >= (7, 0) and half):
        alignment = max(alignment, 8 if half else 4)
    size, wide = call.query[-1], call.value[-1]
    return (
        _dense(call)
        and (5, 0) <= gpu.capability <= _newest(torch)
        and size == call.key[-1]
        and min(size, wide) > 0
        and size % alignment == wide % alignment == 0
        and _heads_fit(call, grouped=False)
        and _last_is_contiguous(call, singletons=False)
        and call.dtypes[0] in dtypes
        and len(set(call.dtypes)) == 1
    )


def _cudnn(call: Attention, gpu: Gpu, torch: tuple[int, int]) -> bool:
    limit = 256 if gpu.capability == (9, 0) and torch >= (2, 6) else 128
    return (
        _dense(call)
        and torch >= (2, 5)
        and (8, 0) <= gpu.capability <= _newest(torch)
        and max(call.query[-1], call.value[-1]) <= limit
        and call.query[-1] % 8 == call.value[-1] % 8 == 0
        and min(call.query[2], call.key[2]) > 1
        and _low_precision(call, gpu)
        and _heads_fit(call, grouped=True)
        and _last_is_contiguous(call, singletons=True)
    )


def _newest(torch: tuple[int, int]) -> tuple[int, int]:
    """The newest GPU for which a version has kernels."""
    return (12, 1) if torch >= (2, 7) else (9, 0)


def _small_shared_memory(gpu: Gpu, torch: tuple[int, int]) -> bool:
    return (8, 6) <= gpu.capability <= (8, 9) or (gpu.capability >= (12, 0) and torch >= (2, 7))


def _too_wide(size: int, dropout: float) -> bool:
    return 192 < size <= 224 or (size > 224 and dropout > 0)


def _low_precision(call: Attention, gpu: Gpu) -> bool:
    dtypes = ("float16", "bfloat16") if gpu.capability >= (8, 0) else ("float16",)
    return call.dtypes[0] in dtypes and len(set(call.dtypes)) == 1


def _dense(call: Attention) -> bool:
    """Four dimensions each, and no length of zero."""
    shapes = (call.query, call.key, call.value)
    return all(len(shape) == 4 and shape[2] > 0 for shape in shapes)


def _heads_fit(call: Attention, *, grouped: bool) -> bool:
    if not call.query[0] == call.key[0] == call.value[0]:
        return False
    heads = (call.query[1], call.key[1], call.value[1])
    if call.grouped and grouped:
        return heads[1] == heads[2] and heads[0] % heads[1] == 0
    return len(set(heads)) == 1


def _last_is_contiguous(call: Attention, *, singletons: bool) -> bool:
    shapes = (call.query, call.key, call.value)
    return all(
        strides[-1] == 1 or (singletons and shape[-1] == 1)
        for shape, strides in zip(shapes, call.strides, strict=True)
    )
