"""The gradient of an embedding sorts its indices and sums per row in float32."""

from __future__ import annotations

from oomph.tracing.kernels import cub
from oomph.tracing.kernels.arguments import argument, bytes_of, div_up, numel, opmath_bytes
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take

_PLAIN_UP_TO = 3072
_ROWS_PER_THREAD = 10
_BLOCK = 1024


class EmbeddingBackward:
    """More than 3072 indices: they are sorted, and every run of equal ones is summed in parts of ten rows, for which
    there is room for `count / 10 + min(count, rows)` rows of float32: often more than the gradient itself."""

    name = "embedding_backward"
    operators = ("aten.embedding_dense_backward",)
    evidence = (
        "aten/src/ATen/native/cuda/Embedding.cu (embedding_dense_backward_cuda), EmbeddingBackwardKernel.cu "
        "(embedding_backward_cuda_kernel; one pass with atomics for few rows from 2.11 on: pull request 172454)"
    )

    def effect(self, call: Call) -> Effect | None:
        """Sort arrays before the result, the sums after it."""
        grad, indices, rows = call.args[:3]
        count, width = numel(indices.shape), int(indices.dtype.itemsize)
        by_frequency = bool(argument(call, 4, "scale_grad_by_freq", False))
        copies: list[Step] = [
            Take(name, bytes_of(tensor))
            for name, tensor in (("indices", indices), ("gradient", grad))
            if not tensor.is_contiguous()
        ]
        if count <= _PLAIN_UP_TO and not by_frequency:
            return Effect((*copies, Output())) if copies else None
        array = count * width
        sort: list[Step] = [
            Take("sorted", array),
            Take("original", array),
            Take("range", array),
            Take("sort", cub.sort_pairs(count, width, width, 8 * width)),
            Give("sort"),
            Give("range"),
        ]
        if by_frequency:
            sort += [Take("count", array), Take("runs", cub.scan(count, width)), Give("runs")]
        return Effect((*copies, *sort, Output(), *self._sums(call, count, width, int(rows))))

    def _sums(self, call: Call, count: int, width: int, rows: int) -> list[Step]:
        grad = call.args[0]
        columns = int(grad.shape[-1])
        segments = min(count, rows)
        parts = count // _ROWS_PER_THREAD + segments
        steps: list[Step] = [
            Take("segments", count * width),
            Take("segment_count", 8),
            Take("unique", cub.select(count)),
            Give("unique"),
            Take("parts", segments * width),
            Take("part_offsets", segments * width),
            Take("scan", cub.scan(segments, width)),
            Give("scan"),
            Take("part_count", 8),
            Take("part_starts", parts * width),
        ]
        if not self._one_pass(call, segments, parts, columns):
            return [*steps, Take("part_sums", parts * columns * opmath_bytes(grad))]
        steps.append(Take("part_rows", parts * width))
        if opmath_bytes(grad) != int(grad.dtype.itemsize):
            steps.append(Take("accumulator", rows * columns * opmath_bytes(grad)))
        return steps

    def _one_pass(self, call: Call, segments: int, parts: int, columns: int) -> bool:
        warped = div_up(columns, 32) * 32
        grid = div_up(segments * warped, min(warped, _BLOCK))
        return call.torch >= (2, 11) and grid < 4 * call.gpu.multiprocessors and parts > 4 * grid


RULE = EmbeddingBackward()
