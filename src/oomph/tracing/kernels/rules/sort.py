"""Sorting along a dimension."""

from __future__ import annotations

from oomph.tracing.kernels import cub
from oomph.tracing.kernels.arguments import argument, bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take

_IN_PLACE_UP_TO = 4096


class Sort:
    """Up to 4096 elements are sorted in the results, with one range of indices on the way. More go through CUB: one
    row, or rows of a million, by themselves; fewer than 128 rows in one sort of positions and row numbers; more in a
    segmented sort."""

    name = "sort"
    operators = ("aten.sort", "aten.argsort")
    evidence = (
        "aten/src/ATen/native/cuda/Sort.cpp (sort_cuda_kernel), SortStable.cu (launch_stable_sort_kernel), Sort.h "
        "(should_use_small_sort)"
    )

    def effect(self, call: Call) -> Effect | None:
        """After the results."""
        tensor = call.args[0]
        position = 2 if str(call.op).endswith("stable") and str(call.op).startswith("aten.sort") else 1
        dim = argument(call, position, "dim", -1)
        if not numel(tensor.shape) or not tensor.dim() or not isinstance(dim, int):
            return None
        length = int(tensor.shape[dim])
        rows = numel(tensor.shape) // length
        if length <= _IN_PLACE_UP_TO:
            return Effect((Output(), Take("range", 8 * length), Give("range")))
        steps: list[Step] = [Output()]
        if not tensor.is_contiguous() or int(tensor.stride()[dim]) != 1:
            every = numel(tensor.shape)
            steps += [Take("input", bytes_of(tensor))]
            steps += [Take("values", bytes_of(tensor)), Take("indices", 8 * every)]
        return Effect((*steps, *_cub(rows, length, int(tensor.dtype.itemsize))))


def _cub(rows: int, length: int, itemsize: int) -> list[Step]:
    count = rows * length
    if rows == 1 or length >= 1_000_000:
        storage = cub.sort_pairs(length, itemsize, 8, 8 * itemsize)
        steps: list[Step] = [Take("positions", 8 * length)]
        for row in range(rows):
            steps += [Take(f"storage{row}", storage), Give(f"storage{row}")]
        return steps
    if rows < 128:
        bits = max(1, (rows - 1).bit_length())
        return [
            Take("positions", 8 * count),
            Take("sorted_positions", 8 * count),
            Take("keys", count * itemsize),
            Take("storage", cub.sort_pairs(count, itemsize, 8, 8 * itemsize)),
            Give("storage"),
            Give("keys"),
            Take("row_storage", cub.sort_pairs(count, 8, 0, bits)),
            Give("row_storage"),
        ]
    return [Take("positions", 8 * count), Take("storage", count * (itemsize + 8))]


RULE = Sort()
