"""Scratch memory of kernels as functions of sizes, for expressions. All arguments are lists of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.kernels.arithmetic import Counts
from oomph.memory.kernels.embedding import Gradient
from oomph.memory.kernels.iteration import reduction
from oomph.memory.kernels.reduce_launch import Kernel, Scratch, scratch

#: The blocks that an embedding's gradient may take, by their numbers in `embedding_scratch`.
EMBEDDING_BLOCKS = (
    "sorted",
    "original",
    "range",
    "sort",
    "segments",
    "segment_count",
    "unique",
    "parts",
    "part_offsets",
    "scan",
    "part_count",
    "part_starts",
    "part_sums",
    "part_rows",
    "accumulator",
)


def reduce_buffer(*arguments: Sequence[int]) -> int:
    """Bytes of partial results that a reduction's thread blocks share; 0 where they share none.

    The arguments: [which kernel, kernels accounted for], the input's sizes, its strides in elements, the reduced
    dimensions, [bytes of an element, the input's offset, bytes of each result's element], [bytes of what is
    accumulated, values a thread loads at a time, most threads of a block], [multiprocessors, threads of each, torch as
    100 * major + minor]. Source: PyTorch's aten/src/ATen/native/cuda/Reduce.cuh. An input that needs 64-bit indices is
    reduced by several kernels one after another; ValueError where there are more than accounted for.
    """
    launch = _launch(*arguments)
    return 0 if launch is None else launch.buffer_bytes


def reduce_counters(*arguments: Sequence[int]) -> int:
    """Bytes of the counters of such a reduction; arguments as of `reduce_buffer`."""
    launch = _launch(*arguments)
    return 0 if launch is None else launch.semaphore_bytes


def _launch(
    which: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    dims: Sequence[int],
    item: Sequence[int],
    kernel: Sequence[int],
    gpu: Sequence[int],
) -> Scratch | None:
    number, accounted = which
    itemsize, offset, *results = item
    accumulated, vt0, most_threads = kernel
    multiprocessors, threads, torch = gpu
    whole = reduction(shape, strides, dims, itemsize, results, offset)
    launches = [
        scratch(
            part,
            Kernel(itemsize, accumulated, vt0, most_threads),
            Counts(multiprocessors, threads),
            divmod(torch, 100),
        )
        for part in whole.parts()
    ]
    if any(launch is not None for launch in launches[accounted:]):
        raise ValueError(
            f"the reduction is split into {len(launches)} kernels, {accounted} are accounted for"
        )
    return launches[number] if number < len(launches) else None


def embedding_scratch(which: int, sizes: Sequence[int], gpu: Sequence[int]) -> int:
    """Bytes of one of EMBEDDING_BLOCKS; 0 where this call takes none.

    `sizes`: indices, bytes of each, rows of the embedding, its columns, bytes of an element of the gradient and of
    what it is summed in. `gpu`: multiprocessors, torch as 100 * major + minor.
    """
    count, index_bytes, rows, columns, grad_bytes, sum_bytes = sizes
    multiprocessors, torch = gpu
    call = Gradient(
        count, index_bytes, rows, columns, grad_bytes, sum_bytes, multiprocessors, divmod(torch, 100)
    )
    sorting = call.sorting()
    return {**sorting, **call.sums()}.get(EMBEDDING_BLOCKS[which], 0) if sorting else 0
