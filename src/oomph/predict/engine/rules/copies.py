"""What is copied into a part of a tensor that was made empty: the tensor is a function of what came into it.

Source: torch/csrc/autograd/functions/tensor.cpp (CopySlices, CopyBackwards).
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import first


def copied_into(graph: Graph, base: Tensor, part: Tensor, source: Tensor) -> None:
    """A node for `base[part].copy_(source)`. Its backward copies the gradient, and the part of it again, which is the
    source's gradient; what was in the part before has a gradient of zeros."""
    node = graph.add("aten.copy_", [base, source], [base])
    shape, strides, cut = base.shape, base.strides, part.shape

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        grad = first(grads)
        whole = heap.new(shape, grad.dtype, "", strides)
        piece = heap.new(cut, grad.dtype)
        before = None if node.edges[0] is None else heap.new(cut, grad.dtype, "zeros")
        if before is None:
            heap.release(whole.storage)
        else:
            heap.release(before.storage)
        return [None if before is None else whole, piece]

    node.back = back
