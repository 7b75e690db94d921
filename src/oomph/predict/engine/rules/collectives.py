"""Collectives of tensor and expert parallelism as functions that have a gradient (sequence_parallel.py,
expert_parallel.py).

Sources: torch/distributed/tensor/_redistribute.py (Redistribute.backward), placement_types.py; what they copy beside
their results is in engine/staging.py.
"""

from __future__ import annotations

from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import Heap, Tensor
from oomph.predict.engine.rules.base import Call, first, rule
from oomph.predict.engine.rules.pointwise import same


@rule("oomph.all_gather", "oomph.reduce_scatter", "oomph.enter", "oomph.all_to_all")
def shaped(call: Call) -> None:
    """The gradient goes the other way: a new tensor of the argument's shape."""
    source = call.tensors[0]
    assert source is not None
    shape, dtype = source.shape, source.dtype

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [heap.new(shape, dtype)]

    call.node(edges=call.tensors[:1]).back = back


@rule("oomph.all_reduce")
def summed(call: Call) -> None:
    """The gradient of a sum is that of each term."""

    def back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
        return [same(heap, first(grads))]

    call.node(edges=call.tensors[:1]).back = back
