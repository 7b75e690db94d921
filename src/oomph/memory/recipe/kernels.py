"""Scratch memory of kernels as functions of sizes, for expressions. All arguments are lists of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.kernels.arithmetic import Counts, div_up
from oomph.memory.kernels.attention import (
    efficient_workspace_bytes,
    flash_splits,
    round_up,
    rounded_head,
)
from oomph.memory.kernels.embedding import Gradient
from oomph.memory.kernels.iteration import reduction
from oomph.memory.kernels.layer_norm import partial_bytes
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


def reduce_accumulator(
    shape: Sequence[int],
    strides: Sequence[int],
    dims: Sequence[int],
    item: Sequence[int],
    kernel: Sequence[int],
) -> int:
    """Bytes of the float32 results of a reduction in half precision that runs as several kernels, else 0; arguments as
    of `reduce_buffer`, of which it needs no more."""
    itemsize, offset, *results = item
    whole = reduction(shape, strides, dims, itemsize, results, offset)
    needed = not whole.fits_32_bits and kernel[0] > results[0]
    return whole.num_outputs * kernel[0] if needed else 0


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


def flash_partials(which: int, sizes: Sequence[int], multiprocessors: int) -> int:
    """Bytes of flash attention's partial results where the keys are split, 0 where they are not: with `which` 0 the
    log-sum-exps, with 1 the outputs. `sizes`: batch, heads, rows, keys, head size."""
    batch, heads, rows, keys, size = sizes
    splits = flash_splits(batch * heads * div_up(rows, 64), keys, size, multiprocessors)
    rowwise = splits * batch * heads * rows * 4 if splits > 1 else 0
    return rowwise * (rounded_head(size) if which else 1)


def flash_row_sums(sizes: Sequence[int]) -> int:
    """Bytes of a number per row in flash attention's backward. `sizes`: batch, heads, rows."""
    batch, heads, rows = sizes
    return batch * heads * round_up(rows, 128) * 4


def flash_query_sums(sizes: Sequence[int]) -> int:
    """Bytes of the float32 gradient of the query in flash attention's backward. `sizes`: batch, heads, rows, head
    size."""
    batch, heads, rows, size = sizes
    return batch * round_up(rows, 128) * heads * rounded_head(size) * 4


def efficient_workspace(sizes: Sequence[int], kind: Sequence[int]) -> int:
    """Bytes of memory-efficient attention's sums in backward. `sizes`: batch, heads, rows, keys, head size, that of the
    values. `kind`: 1 for half precision, compute capability as 10 * major + minor, 1 with dropout."""
    batch, heads, rows, keys, size, wide = sizes
    half, capability, dropout = kind
    return efficient_workspace_bytes(
        batch * heads, rows, keys, size, wide, bool(half), divmod(capability, 10), bool(dropout)
    )


def layer_norm_partial(sizes: Sequence[int], gpu: Sequence[int]) -> int:
    """Bytes of a layer norm's partial gradients. `sizes`: rows, columns, bytes of an element. `gpu`: multiprocessors,
    torch as 100 * major + minor."""
    rows, columns, itemsize = sizes
    multiprocessors, torch = gpu
    return partial_bytes(rows, columns, itemsize, multiprocessors, divmod(torch, 100))
