"""How PyTorch's TensorIterator orders and joins the dimensions of a reduction, which decides the kernel's launch.

Source: aten/src/ATen/TensorIterator.cpp (reorder_dimensions, coalesce_dimensions, with_32bit_indexing, split) and
aten/src/ATen/native/ReduceOpsUtils.h (review_reduce_result: reduced dimensions of a result have stride 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_INT32_MAX = 2**31 - 1


@dataclass
class Iteration:
    """A reduction as the kernel sees it: sizes per dimension, fastest first, and per operand (results, then the
    input) its strides in bytes. `offset` is where the input starts, in elements."""

    shape: list[int]
    strides: list[list[int]]
    offset: int = 0

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def num_outputs(self) -> int:
        """Elements of one result."""
        count = 1
        for size, stride in zip(self.shape, self.strides[0], strict=True):
            count *= size if stride else 1
        return count

    @property
    def num_reduce_dims(self) -> int:
        return sum(stride == 0 for stride in self.strides[0])

    @property
    def fits_32_bits(self) -> bool:
        """Whether every element, and every byte of each operand, can be counted in 32 bits."""
        if self.numel > _INT32_MAX:
            return False
        return all(
            1 + sum((size - 1) * stride for size, stride in zip(self.shape, strides, strict=True))
            <= _INT32_MAX
            for strides in self.strides
        )

    def parts(self) -> Iterator[Iteration]:
        """Itself, or the halves (of halves) that fit 32 bits, in the order in which they run."""
        if self.fits_32_bits:
            yield self
            return
        dim, most = -1, -1
        for candidate in reversed(range(len(self.shape))):
            for strides in self.strides:
                extent = (self.shape[candidate] - 1) * abs(strides[candidate])
                if extent > most:
                    dim, most = candidate, extent
        first = self.shape[dim] // 2
        for size in (first, self.shape[dim] - first):
            shape = list(self.shape)
            shape[dim] = size
            yield from Iteration(shape, self.strides, self.offset).parts()


def reduction(
    shape: Sequence[int],
    strides: Sequence[int],
    dims: Sequence[int],
    itemsize: int,
    result_itemsizes: Sequence[int],
    offset: int = 0,
) -> Iteration:
    """The iteration of a reduction of `dims` (none: all) of an input with these sizes and strides in elements, into
    fresh contiguous results."""
    ndim = len(shape)
    reduced = {dim % ndim for dim in dims} if dims else set(range(ndim))
    operands = []
    for size_bytes in result_itemsizes:
        stride, row = size_bytes, [0] * ndim
        for dim in reversed(range(ndim)):
            if dim not in reduced:
                row[dim] = stride
                stride *= shape[dim]
        operands.append(row)
    operands.append([stride * itemsize for stride in strides])
    order = _order(shape, operands, len(result_itemsizes))
    iteration = Iteration(
        [int(shape[dim]) for dim in order], [[row[dim] for dim in order] for row in operands], offset
    )
    _coalesce(iteration)
    return iteration


def _order(shape: Sequence[int], operands: Sequence[Sequence[int]], results: int) -> list[int]:
    """Dimensions, fastest first: reduced ones before the others, then by stride of the results, then of the input."""

    def swap(one: int, two: int) -> int:
        for number, strides in enumerate(operands):
            left, right = strides[one], strides[two]
            if number < results and (left == 0) != (right == 0):
                return 1 if right == 0 else -1
            if left == 0 or right == 0:
                continue
            if left != right:
                return -1 if left < right else 1
            if shape[one] > shape[two]:
                return 1
        return 0

    order = list(reversed(range(len(shape))))
    for start in range(1, len(order)):
        moving = start
        for before in reversed(range(start)):
            comparison = swap(order[before], order[moving])
            if comparison > 0:
                order[before], order[moving] = order[moving], order[before]
                moving = before
            elif comparison < 0:
                break
    return order


def _coalesce(iteration: Iteration) -> None:
    """Joins neighbours that every operand walks as one."""
    shape, operands = iteration.shape, iteration.strides
    if len(shape) <= 1:
        return
    last = 0
    for dim in range(1, len(shape)):
        joins = (
            shape[last] == 1
            or shape[dim] == 1
            or all(shape[last] * strides[last] == strides[dim] for strides in operands)
        )
        if joins:
            if shape[last] == 1:
                for strides in operands:
                    strides[last] = strides[dim]
            shape[last] *= shape[dim]
        else:
            last += 1
            for strides in operands:
                strides[last] = strides[dim]
            shape[last] = shape[dim]
    del shape[last + 1 :]
    for strides in operands:
        del strides[last + 1 :]
