"""What the gradient of an embedding allocates beside its result.

Source: aten/src/ATen/native/cuda/Embedding.cu (embedding_dense_backward_cuda), EmbeddingBackwardKernel.cu
(embedding_backward_cuda_kernel; one pass with atomics for few rows from torch 2.11 on: pull request 172454).
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.memory.kernels import cub
from oomph.memory.kernels.arithmetic import div_up

#: So many indices are summed without sorting them.
PLAIN_UP_TO = 3072
_ROWS_PER_THREAD = 10
_BLOCK = 1024


@dataclass(frozen=True)
class Gradient:
    """One call: `count` indices of `index_bytes` each, `rows` of the embedding with `columns`, the bytes of an
    element of the gradient and of what it is summed in, the GPU's multiprocessors, and torch's version."""

    count: int
    index_bytes: int
    rows: int
    columns: int
    grad_bytes: int
    sum_bytes: int
    multiprocessors: int
    torch: tuple[int, int]

    def sorting(self) -> dict[str, int]:
        """Bytes by name of what sorting the indices takes, before the result, in order; empty when they are few."""
        if self.count <= PLAIN_UP_TO:
            return {}
        return self.sorted_arrays()

    def sorted_arrays(self) -> dict[str, int]:
        """The same, however few they are."""
        array, width = self.count * self.index_bytes, self.index_bytes
        sort = cub.sort_pairs(self.count, width, width, 8 * width)
        return {"sorted": array, "original": array, "range": array, "sort": sort}

    def sums(self) -> dict[str, int]:
        """Bytes by name of what summing the rows of equal indices takes, after the result, in order."""
        width, parts = self.index_bytes, self.parts
        names = {
            "segments": self.count * width,
            "segment_count": 8,
            "unique": cub.select(self.count),
            "parts": self.segments * width,
            "part_offsets": self.segments * width,
            "scan": cub.scan(self.segments, width),
            "part_count": 8,
            "part_starts": parts * width,
        }
        if not self.one_pass:
            return {**names, "part_sums": parts * self.columns * self.sum_bytes}
        names["part_rows"] = parts * width
        if self.sum_bytes != self.grad_bytes:
            names["accumulator"] = self.rows * self.columns * self.sum_bytes
        return names

    @property
    def segments(self) -> int:
        """At most so many different indices."""
        return min(self.count, self.rows)

    @property
    def parts(self) -> int:
        """At most so many sums of ten rows."""
        return self.count // _ROWS_PER_THREAD + self.segments

    @property
    def one_pass(self) -> bool:
        """Whether sums go straight to the result."""
        warped = div_up(self.columns, 32) * 32
        grid = div_up(self.segments * warped, min(warped, _BLOCK))
        return self.torch >= (2, 11) and grid < 4 * self.multiprocessors and self.parts > 4 * grid
