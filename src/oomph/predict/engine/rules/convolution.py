"""Convolutions. cuDNN's scratch memory is not known and is left out; kernels.md says where.

Source: derivatives.yaml (convolution_overrideable, convolution: input and weight are saved).
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.views import dense_copy


@rule("aten.convolution", "aten.cudnn_convolution", "aten._convolution")
def convolution(call: Call) -> None:
    """Input and weight are saved; each wanted gradient is a new tensor, and a strided gradient is copied first."""
    node = call.node()
    call.graph.save(node, *call.tensors[:2])
    node.metas = list(call.tensors)

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        held = dense_copy(heap, grad)
        found: list[Tensor | None] = []
        for edge, source in zip(node.edges, node.metas, strict=True):
            found.append(None if edge is None or source is None else heap.new(source.shape, source.dtype))
        heap.release(held.storage)
        return found

    node.back = back
