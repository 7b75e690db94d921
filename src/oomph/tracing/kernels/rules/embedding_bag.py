"""Bags of embeddings: what backward needs is made first, and the gradient is an embedding's."""

from __future__ import annotations

from oomph.memory.kernels.embedding import Gradient
from oomph.tracing.kernels.arguments import argument, bytes_of, numel, opmath_bytes
from oomph.tracing.kernels.rule import Call, Effect, Output, Step, Take
from oomph.tracing.kernels.rules.embedding_backward import sorted_sum

_MAX = 2


class EmbeddingBag:
    """Sizes of bags, each index's bag, the result, and for the maximum which index it was."""

    name = "embedding_bag"
    operators = ("aten._embedding_bag", "aten._embedding_bag_forward_only")
    evidence = "aten/src/ATen/native/cuda/EmbeddingBag.cu (_embedding_bag_cuda)"

    def effect(self, call: Call) -> Effect | None:
        """Order of the results."""
        most = argument(call, 4, "mode", 0) == _MAX
        return Effect((Output(2), Output(1), Output(0), Output(3, bytes=None if most else 0)))


class EmbeddingBagBackward:
    """Sum and mean sort the indices, however few, and sum runs of equal ones as an embedding's gradient does; the
    maximum needs the gradient only."""

    name = "embedding_bag_backward"
    operators = ("aten._embedding_bag_backward", "aten._embedding_bag_dense_backward")
    evidence = (
        "aten/src/ATen/native/cuda/EmbeddingBag.cu (embedding_bag_backward_cuda_sum_avg), EmbeddingBackwardKernel.cu "
        "(embedding_backward_cuda_kernel)"
    )

    def effect(self, call: Call) -> Effect | None:
        """Sort arrays before the result, the sums after it."""
        grad, indices = call.args[:2]
        first = 5 if "dense" in str(call.op) else 6
        rows, by_frequency, mode = call.args[first : first + 3]
        copies: list[Step] = [] if grad.is_contiguous() else [Take("gradient", bytes_of(grad))]
        if mode == _MAX or not numel(indices.shape):
            return Effect((*copies, Output()))
        gradient = Gradient(
            count=numel(indices.shape),
            index_bytes=int(indices.dtype.itemsize),
            rows=int(rows),
            columns=int(grad.shape[-1]),
            grad_bytes=int(grad.dtype.itemsize),
            sum_bytes=opmath_bytes(grad),
            multiprocessors=call.gpu.multiprocessors,
            torch=call.torch,
        )
        return Effect((*copies, *sorted_sum(gradient, bool(by_frequency))))


RULES = [EmbeddingBag(), EmbeddingBagBackward()]
