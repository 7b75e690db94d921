"""Reductions whose thread blocks share a result: partial results and counters in global memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from oomph.hardware.gpus import Gpu
from oomph.tracing.kernels.arguments import argument, bytes_of, kind, low_precision, numel, opmath_bytes
from oomph.tracing.kernels.iteration import reduction
from oomph.tracing.kernels.reduce_launch import Kernel, scratch
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take


@dataclass(frozen=True)
class _Family:
    """How one operator reduces: where its dimensions and dtype stand among the arguments (None: there are none), the
    size of what is accumulated, and whether its input is cast to the result's dtype first."""

    accumulated: Callable[[Any], int]
    dim: int | None = 1
    dtype: int | None = None
    casts: bool = False
    vt0: int = 4
    results: tuple[int, ...] = (0,)


def _pair(_: Any) -> int:
    return 16  # a value of at most 8 bytes and an index of 8


def _item(tensor: Any) -> int:
    return int(tensor.dtype.itemsize)


def _both(tensor: Any) -> int:
    return 2 * _item(tensor)


def _welford(tensor: Any) -> int:
    return 32 if kind(tensor) == "float64" else 16  # mean, m2, a count of 4 bytes, and the count as a float


def _norm(tensor: Any) -> int:
    if kind(tensor).startswith("complex"):
        return max(4, _item(tensor) // 2)
    return opmath_bytes(tensor)


_SUM = _Family(opmath_bytes, dtype=3, casts=True)
_WHOLE_SUM = _Family(opmath_bytes, dim=None, dtype=1, casts=True)
_EXTREME = _Family(_item)
_INDEXED = _Family(_pair, results=(0, 8))
_MOMENT = _Family(_welford, vt0=2)
_MOMENTS = _Family(_welford, vt0=2, results=(0, 0))
_FAMILIES = {
    "aten.sum.dim_IntList": _SUM,
    "aten.sum.default": _WHOLE_SUM,
    "aten.nansum.default": _SUM,
    "aten.mean.dim": _SUM,
    "aten.mean.default": _WHOLE_SUM,
    "aten.prod.dim_int": _SUM,
    "aten.prod.default": _WHOLE_SUM,
    "aten.amax.default": _EXTREME,
    "aten.amin.default": _EXTREME,
    "aten.max.default": _Family(_item, dim=None),
    "aten.min.default": _Family(_item, dim=None),
    "aten.max.dim": _INDEXED,
    "aten.min.dim": _INDEXED,
    "aten.argmax.default": _Family(_pair, results=(8,)),
    "aten.argmin.default": _Family(_pair, results=(8,)),
    "aten.aminmax.default": _Family(_both, results=(0, 0)),
    "aten.any.default": _Family(_item, dim=None),
    "aten.any.dim": _EXTREME,
    "aten.any.dims": _EXTREME,
    "aten.all.default": _Family(_item, dim=None),
    "aten.all.dim": _EXTREME,
    "aten.all.dims": _EXTREME,
    "aten.var.correction": _MOMENT,
    "aten.std.correction": _MOMENT,
    "aten.var_mean.correction": _MOMENTS,
    "aten.std_mean.correction": _MOMENTS,
    "aten.linalg_vector_norm.default": _Family(_norm, dim=2, dtype=4, casts=True),
    "aten.norm.ScalarOpt_dim": _Family(_norm, dim=2),
    "aten.norm.ScalarOpt_dim_dtype": _Family(_norm, dim=2, dtype=4, casts=True),
    "aten.norm.Scalar": _Family(_norm, dim=None),
}
_UNCASTED_INTEGERS = ("aten.mean", "aten.linalg_vector_norm", "aten.norm")


class Reduction:
    """The buffer and the counters, after the results; before them a copy of the input where its dtype is not that
    of the sum (bool to int64), and of a strided input where the whole is searched for its extreme."""

    name = "reduction"
    operators = tuple(_FAMILIES)
    evidence = (
        "aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig, gpu_reduce_kernel), Reduce*Kernel.cu (accumulated "
        "types), ReduceOps.cpp (make_reduction_from_out_ty), ReduceAllOps.cpp; seen in real snapshots of torch 2.7 "
        "and 2.10 (sum, max with indices)"
    )

    def effect(self, call: Call) -> Effect | None:
        """What one call allocates beside its results."""
        found = described(call)
        if found is None:
            return None
        grows = low_precision(call.args[0]) and found.kernel.accumulated > found.result_itemsizes[0]
        # Where a result's four neighbours begin is all that matters of the offset.
        shape, strides, dims = tuple(found.shape), tuple(found.strides), tuple(found.dims)
        launched = _launched(
            (shape, strides, dims, found.itemsize, tuple(found.result_itemsizes), found.offset % 4),
            found.kernel,
            grows,
            call.gpu,
            call.torch,
        )
        return Effect((Output(), *found.copies, *launched)) if found.copies or launched else None


@lru_cache(maxsize=8192)
def _launched(
    layout: tuple[Any, ...], kernel: Kernel, grows: bool, gpu: Gpu, torch: tuple[int, int]
) -> tuple[Step, ...]:
    """What the launches take: the same call comes again and again. `grows`: a sum in parts outgrows its result."""
    whole = reduction(*layout)
    steps: list[Step] = []
    if grows and not whole.fits_32_bits:
        steps.append(Take("accumulator", whole.num_outputs * kernel.accumulated))
    for number, part in enumerate(whole.parts()):
        launch = scratch(part, kernel, gpu, torch)
        if launch is not None:
            steps += [
                Take(f"buffer{number}", launch.buffer_bytes),
                Take(f"counters{number}", launch.semaphore_bytes),
                Give(f"counters{number}"),
                Give(f"buffer{number}"),
            ]
    return tuple(steps)


@dataclass(frozen=True)
class Described:
    """A reduction in numbers, as its kernel sees it; `copies` of the input come first."""

    shape: list[int]
    strides: list[int]
    dims: Sequence[int]
    itemsize: int
    result_itemsizes: list[int]
    offset: int
    kernel: Kernel
    copies: tuple[Take, ...]


def described(call: Call) -> Described | None:
    """The reduction that a call is; None for one of nothing."""
    family = _FAMILIES[str(call.op)]
    tensor = call.args[0]
    if not bytes_of(tensor):
        return None
    dims = _dims(call, family)
    copies: tuple[Take, ...] = ()
    shape, strides = [int(size) for size in tensor.shape], [int(stride) for stride in tensor.stride()]
    itemsize = _item(tensor)
    accumulated, result_bytes = family.accumulated(tensor), [size or itemsize for size in family.results]
    cast = _cast(call, family)
    if cast is not None:
        copies = (Take("cast", numel(shape) * cast.itemsize),)
        itemsize = accumulated = int(cast.itemsize)
        strides, result_bytes = dense(shape, strides), [itemsize]
    elif str(call.op) in ("aten.max.default", "aten.min.default") and not tensor.is_contiguous():
        copies = (Take("contiguous", bytes_of(tensor)),)
        strides = dense(shape, list(range(len(strides), 0, -1)))
    kernel = Kernel(itemsize, accumulated, family.vt0, 256 if itemsize == 16 else 512)
    offset = 0 if copies else int(tensor.storage_offset())
    return Described(shape, strides, dims, itemsize, result_bytes, offset, kernel, copies)


def _dims(call: Call, family: _Family) -> Sequence[int]:
    dim = None if family.dim is None else argument(call, family.dim, "dim")
    if dim is None:
        return ()
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _cast(call: Call, family: _Family) -> Any:
    """The dtype that the input is copied to first; None where the kernel reads it as it is."""
    tensor = call.args[0]
    if not family.casts:
        return None
    wanted = argument(call, family.dtype, "dtype") if family.dtype is not None else None
    if wanted is None:
        integral = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
        if not integral or kind(tensor) == "int64" or str(call.op).startswith(_UNCASTED_INTEGERS):
            return None
        import torch

        return torch.int64
    if wanted == tensor.dtype or (low_precision(tensor) and str(wanted) == "torch.float32"):
        return None
    return wanted


def dense(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The strides of a dense copy that keeps the order of the dimensions."""
    result, stride = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda dim: (strides[dim], -dim)):
        result[dim] = stride
        stride *= int(shape[dim])
    return result


RULE = Reduction()
