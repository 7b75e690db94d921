"""What contrastive losses are made of: norms of vectors, and the logarithm of a sigmoid.

Source: tools/autograd/derivatives.yaml (linalg_vector_norm, log_sigmoid_forward), FunctionsManual.cpp
(linalg_vector_norm_backward: self * (grad / norm), with zeros where the norm is 0).
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.pointwise import like, one_new


@rule("aten.linalg_vector_norm")
def vector_norm(call: Call) -> None:
    """The vectors and their norms are saved."""
    source = call.tensors[0]
    assert source is not None
    node = call.node(edges=[source])
    call.graph.save(node, source, call.results[0])
    node.metas = [source]

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        source = node.metas[0]
        assert source is not None
        scaled = like(heap, first(grads), None, "gradient over norm")
        result = like(heap, source)
        heap.release(scaled.storage)
        return [result]

    node.back = back


@rule("aten.log_sigmoid_forward")
def log_sigmoid(call: Call) -> None:
    """The argument is saved (CUDA's second result is empty); backward makes one tensor."""
    node = call.node(edges=call.tensors[:1], results=call.results[:1])
    call.graph.save(node, call.tensors[0])
    node.back = one_new
