"""What collectives copy beside their results, since NCCL gathers and scatters along the first dimension only.

Source: torch/distributed/_functional_collectives.py (all_gather_single: chunks of what was gathered are concatenated
along the dimension; reduce_scatter_single: chunks are concatenated first), torch/_utils.py (_maybe_view_chunk_cat: a
view where there is one sequence, PyTorch pull request 169404).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oomph.memory.categories import Category
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import Heap, Tensor

_GATHERS_AS_VIEW = (2, 11)


def staged(
    packet: str, source: Tensor | None, arguments: Sequence[object], torch: tuple[int, int]
) -> tuple[int, int]:
    """Bytes that a collective copies while it runs, in forward and in backward; (0, 0) for what is none."""
    if source is None or not packet.startswith("oomph.") or len(arguments) < 3:
        return 0, 0
    ranks, along = arguments[1], arguments[2]
    if not isinstance(ranks, int):
        return 0, 0
    copies = source.shape[0] > 1 or torch < _GATHERS_AS_VIEW
    if packet == "oomph.reduce_scatter":
        return source.bytes, source.bytes if copies else 0
    if packet != "oomph.all_gather":
        return 0, 0
    whole = source.bytes * ranks
    if along == "last":  # the gradient's part is cut out of it, and that is the result
        return whole, 0
    return whole if copies else 0, whole


def stages_again(graph: Graph, size: int) -> None:
    """The last node's backward copies so much beside what it makes."""
    node = graph.nodes[-1]
    back: Callable[[Heap, Node, Grads], Sequence[Tensor | None]] | None = node.back
    assert back is not None

    def again(heap: Heap, node: Node, grads: Grads) -> Sequence[Tensor | None]:
        held = heap.allocate(size, "copy for a collective", Category.COMMUNICATION)
        found = back(heap, node, grads)
        heap.release(held)
        return found

    node.back = again
