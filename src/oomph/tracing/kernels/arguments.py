"""Reading the arguments of an operator call, for rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oomph.tracing.kernels.rule import Call


def argument(call: Call, position: int, name: str, default: Any = None) -> Any:
    """The argument at `position` of the operator's schema, or the keyword `name`; `default` where neither is given."""
    if position < len(call.args):
        return call.args[position]
    return call.kwargs.get(name, default)


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor: by what rules need of one, so that torch need not be imported."""
    return hasattr(value, "storage_offset") and hasattr(value, "dtype")


def numel(shape: Iterable[int]) -> int:
    """How many elements a shape has."""
    count = 1
    for size in shape:
        count *= int(size)
    return count


def bytes_of(tensor: Any) -> int:
    """What a dense copy of the tensor takes, in bytes."""
    return numel(tensor.shape) * int(tensor.dtype.itemsize)


def kind(tensor: Any) -> str:
    """The dtype's short name: "float32", "bfloat16", "bool", ..."""
    return str(tensor.dtype).removeprefix("torch.")


def low_precision(tensor: Any) -> bool:
    """Whether the dtype is float16 or bfloat16, which CUDA kernels compute in float32."""
    return kind(tensor) in ("float16", "bfloat16")


def opmath_bytes(tensor: Any) -> int:
    """The size of the type that CUDA kernels compute in (`at::opmath_type`): at least 4 bytes for floating point."""
    return 4 if low_precision(tensor) else int(tensor.dtype.itemsize)


def variant(call: Call) -> str:
    """The operator with its overload, as `aten.sum.dim_IntList`."""
    return str(call.op)


def is_out(call: Call) -> bool:
    """Whether results are written to tensors that the caller gave."""
    return "out" in call.kwargs


def div_up(value: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-value // by)
