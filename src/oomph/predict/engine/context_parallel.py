"""Ring attention of context parallelism: what is alive beside the attention kernel's own tensors.

Source: torch/distributed/tensor/experimental/_context_parallel/_attention.py of PyTorch 2.13
(_templated_ring_attention, _SDPAMerger, _templated_ring_attention_backward) with its defaults: keys and values of all
ranks are gathered at once, results are merged in fp32. Sizes are those of the last rank, which uses all of its queries
in every step. docs/terms/context-parallel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.memory.categories import Category
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import ITEM, Heap, Storage, Tensor, numel

_ATTENTION = frozenset(
    (
        "aten._scaled_dot_product_flash_attention",
        "aten._scaled_dot_product_efficient_attention",
        "aten._scaled_dot_product_cudnn_attention",
    )
)


@dataclass(frozen=True)
class Ring:
    """One attention over a ring. queries, keys: elements of this rank's queries and of its keys (values are as many).
    item: bytes of one."""

    ranks: int
    queries: int
    keys: int
    item: int

    @property
    def gathered(self) -> int:
        """Keys and values of all ranks."""
        return 2 * self.item * self.ranks * self.keys

    def before(self, heap: Heap) -> list[Storage]:
        """Forward until the results are there: a step's result in its dtype and in fp32, the merged one, and the two
        terms of their difference. What is left is alive while the results are cast back."""
        held = [heap.allocate(self.gathered, "keys and values of all ranks", Category.COMMUNICATION)]
        wide = 4 * self.queries
        merged = heap.allocate(wide, "merged results of the ring", Category.TEMPORARIES)
        block = self.item * self.queries
        heap.temporaries((block, 0 if self.item == 4 else wide, wide, wide), "merging of a step")
        return [*held, merged, heap.allocate(block, "results of a step of the ring", Category.TEMPORARIES)]

    def backward(self, heap: Heap) -> list[Storage]:
        """Beside one step's kernel in backward: fp32 sums of all gradients, keys and values on their way and those of
        all ranks, gradients of the step before, and fp32 gradients of keys and values, sent and received."""
        pair = 2 * self.keys
        sizes = (
            4 * self.queries,
            4 * pair,
            self.item * pair,
            self.gathered,
            self.item * (self.queries + pair),
            4 * pair,
            4 * pair,
        )
        return [heap.allocate(size, "sums and buffers of the ring", Category.COMMUNICATION) for size in sizes]


def ring_of(packet: str, inputs: Sequence[Tensor | None], ranks: int) -> Ring | None:
    """The ring that an operator is one step of; None where it is no attention, or there is no ring."""
    if ranks < 2 or packet not in _ATTENTION or len(inputs) < 2:
        return None
    query, key = inputs[0], inputs[1]
    if query is None or key is None:
        return None
    return Ring(ranks, numel(query.shape), numel(key.shape), ITEM[query.dtype])


def goes_round(graph: Graph, ring: Ring) -> None:
    """The last node's backward runs once per rank, with what the ring keeps beside it."""
    node = graph.nodes[-1]
    back = node.back
    assert back is not None

    def again(heap: Heap, node: Node, grads: Grads) -> Sequence[Tensor | None]:
        held = ring.backward(heap)
        found = back(heap, node, grads)
        for storage in held:
            heap.release(storage)
        return found

    node.back = again
