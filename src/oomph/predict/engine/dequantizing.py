"""Quantised weights, whose values are made for each product, in forward and in backward."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import Category
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import Heap, Storage, Tensor, numel
from oomph.predict.engine.scope import Scope


def weight_of(packet: str, inputs: Sequence[Tensor | None]) -> str | None:
    """The parameter that a matrix product multiplies by."""
    if packet in ("aten.mm", "aten.addmm") and inputs[-1] is not None and inputs[-1].parameter:
        return inputs[-1].parameter
    return None


def dequantized(scope: Scope, weight: str | None, inputs: Sequence[Tensor | None]) -> list[Storage]:
    """Buffers of a quantised weight's values, for one product; none where it is not quantised."""
    if weight is None:
        return []
    described = scope.weights(weight)
    matrix = inputs[-1]
    if not described.quantized or matrix is None:
        return []
    size = numel(matrix.shape) * 2
    return [
        scope.heap.allocate(size, "dequantised weight", Category.TEMPORARIES)
        for _ in range(described.dequantized)
    ]


def dequantizes_again(graph: Graph, sizes: Sequence[int]) -> None:
    """The product's backward makes the weight's values once more."""
    node = graph.nodes[-1]
    back = node.back
    assert back is not None

    def again(heap: Heap, node: Node, grads: Grads) -> Sequence[Tensor | None]:
        held = [heap.allocate(size, "dequantised weight", Category.TEMPORARIES) for size in sizes]
        found = back(heap, node, grads)
        for storage in held:
            heap.release(storage)
        return found

    node.back = again


def keep_input(scope: Scope, source: Tensor | None) -> None:
    """A quantised layer's input becomes an attribute of its node."""
    if source is not None and source.requires and source.storage.number >= 0:
        if source.storage not in scope.attributes:
            source.storage.refs += 1
            scope.attributes.append(source.storage)
