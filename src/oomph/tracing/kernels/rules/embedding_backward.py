"""The gradient of an embedding sorts its indices and sums per row in float32."""

from __future__ import annotations

from oomph.memory.kernels.embedding import PLAIN_UP_TO, Gradient
from oomph.tracing.kernels import cub
from oomph.tracing.kernels.arguments import argument, bytes_of, numel, opmath_bytes
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take

#: Temporary storage is given back at once.
_AT_ONCE = {"unique", "scan"}


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
        grad, indices = call.args[:2]
        gradient = described(call)
        by_frequency = bool(argument(call, 4, "scale_grad_by_freq", False))
        copies: list[Step] = [
            Take(name, bytes_of(tensor))
            for name, tensor in (("indices", indices), ("gradient", grad))
            if not tensor.is_contiguous()
        ]
        if gradient.count <= PLAIN_UP_TO and not by_frequency:
            return Effect((*copies, Output())) if copies else None
        return Effect((*copies, *sorted_sum(gradient, by_frequency)))


def sorted_sum(gradient: Gradient, by_frequency: bool) -> tuple[Step, ...]:
    """Sort arrays before the result, the sums after it: what embeddings and bags of them share."""
    sort: list[Step] = [Take(name, size) for name, size in gradient.sorted_arrays().items()]
    sort += [Give("sort"), Give("range")]
    if by_frequency:
        array, width = gradient.count * gradient.index_bytes, gradient.index_bytes
        sort += [Take("count", array), Take("runs", cub.scan(gradient.count, width)), Give("runs")]
    sums: list[Step] = []
    for name, size in gradient.sums().items():
        sums += [Take(name, size), Give(name)] if name in _AT_ONCE else [Take(name, size)]
    return (*sort, Output(), *sums)


def described(call: Call) -> Gradient:
    """The call in numbers."""
    grad, indices, rows = call.args[:3]
    return Gradient(
        count=numel(indices.shape),
        index_bytes=int(indices.dtype.itemsize),
        rows=int(rows),
        columns=int(grad.shape[-1]),
        grad_bytes=int(grad.dtype.itemsize),
        sum_bytes=opmath_bytes(grad),
        multiprocessors=call.gpu.multiprocessors,
        torch=call.torch,
    )


RULE = EmbeddingBackward()
