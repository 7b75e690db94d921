"""What images have beside convolutions: group norms and upsampling.

Source: tools/autograd/derivatives.yaml (native_group_norm, upsample_nearest2d); aten/src/ATen/native/cuda/
group_norm_kernel.cu (GroupNormBackwardKernelImplInternal: two sums for every sample and channel).
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.pointwise import like
from oomph.predict.engine.rules.views import dense_copy

_SUM_BYTES = 4


@rule("aten.native_group_norm")
def group_norm(call: Call) -> None:
    """Input and statistics are saved (the weight is a parameter); backward makes the gradients of input, weight and
    bias, and sums for them."""
    arguments = call.tensors[:3]
    node = call.node(edges=arguments, results=call.results[:1])
    source = arguments[0]
    assert source is not None
    call.graph.save(node, source, *call.results[1:])
    node.metas = list(arguments)
    sums = source.shape[0] * source.shape[1] * _SUM_BYTES

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        held = dense_copy(heap, first(grads))
        found: list[Tensor | None] = []
        for edge, meta in zip(node.edges, node.metas, strict=True):
            found.append(None if edge is None or meta is None else like(heap, meta))
        heap.temporaries([sums, sums], "sums of a group norm")
        heap.release(held.storage)
        return found

    node.back = back


@rule("aten.upsample_nearest2d")
def upsample(call: Call) -> None:
    """Nothing is saved; the gradient is summed to the argument's size."""
    source = call.tensors[0]
    assert source is not None

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        held = dense_copy(heap, first(grads))
        made = like(heap, source, held.dtype)
        heap.release(held.storage)
        return [made]

    call.node(edges=[source]).back = back
