"""The functions that sizes are made of, beside sums and products. Whole numbers in, whole numbers out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oomph.memory.recipe import kernels


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
    "efficient_workspace": kernels.efficient_workspace,
    "embedding_scratch": kernels.embedding_scratch,
    "flash_partials": kernels.flash_partials,
    "flash_query_sums": kernels.flash_query_sums,
    "flash_row_sums": kernels.flash_row_sums,
    "layer_norm_partial": kernels.layer_norm_partial,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "reduce_accumulator": kernels.reduce_accumulator,
    "reduce_buffer": kernels.reduce_buffer,
    "reduce_counters": kernels.reduce_counters,
    "up": up,
}
