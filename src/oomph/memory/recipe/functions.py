"""The functions that sizes are made of, beside sums and products. Whole numbers in, whole numbers out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oomph.memory.recipe.kernels import embedding_scratch, reduce_buffer, reduce_counters


def ceil(value: int, divisor: int) -> int:
    """`value / divisor`, rounded up."""
    if divisor <= 0:
        raise ValueError("the divisor must be positive")
    return -(-value // divisor)


def up(value: int, multiple: int) -> int:
    """The least multiple of `multiple` that is at least `value`."""
    return ceil(value, multiple) * multiple


def above(value: int, limit: int, result: int) -> int:
    """`result` where `value` is greater than `limit`, else 0: kernels that need scratch memory beyond a size."""
    return result if value > limit else 0


#: By the name that expressions use.
FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "above": above,
    "ceil": ceil,
    "embedding_scratch": embedding_scratch,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "reduce_buffer": reduce_buffer,
    "reduce_counters": reduce_counters,
    "up": up,
}
