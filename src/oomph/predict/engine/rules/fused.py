"""Kernels in place of several operators (fusions.py)."""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.pointwise import same


@rule("oomph.rms_norm")
def rms_norm(call: Call) -> None:
    """The input is saved; its gradient is written over the result's. A weight that trains has one of its own."""
    source, weight = call.tensors[:2]
    node = call.node(edges=[source, weight])
    call.graph.save(node, source)
    node.metas = [weight]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad, weight = first(grads), node.metas[0]
        assert weight is not None
        found: list[Tensor | None] = [None, None]
        if node.edges[1] is not None:
            found[1] = heap.new(weight.shape, weight.dtype)
        if node.edges[0] is not None:
            found[0] = same(heap, grad)
        return found

    node.back = back


@rule("oomph.rope")
def rope(call: Call) -> None:
    """Rotated in place, forward and backward."""

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [same(heap, first(grads))]

    call.node(edges=call.tensors[:1]).back = back


@rule("oomph.swiglu")
def swiglu(call: Call) -> None:
    """Gate and up are saved, and become their own gradients."""
    node = call.node(edges=call.tensors[:2])
    call.graph.save(node, *call.tensors[:2])
    node.metas = list(call.tensors[:2])

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [None if each is None else same(heap, each) for each in node.metas]

    node.back = back
