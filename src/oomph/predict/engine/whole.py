"""Autograd over a whole model at once: a parameter that several operators use has one gradient, their sum; and a layer
that is recomputed in backward is one node.

Sources: torch/csrc/autograd/engine.cpp (a leaf's AccumulateGrad runs once all of its uses have given their gradient,
which its input buffer sums), torch/utils/checkpoint.py (_checkpoint_without_reentrant_generator: what a layer was
called with is held by its frame until the last of its saved tensors is gone).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oomph.hardware.gpus import Gpu
from oomph.predict.engine.graph import Edge, Graph, Node
from oomph.predict.engine.heap import Heap, Storage, Tensor

#: What names of leaves that are no parameters begin with.
LEAF = "<leaf"


@dataclass(frozen=True)
class Mark:
    """From this event on backward is that of another unit."""

    event: int
    unit: int


class WholeGraph(Graph):
    """A graph whose nodes belong to units. `marks`: where backward comes to another one; `arrived`: the event at which
    each of `leaves` came. `outer`: the graph that a recomputed layer is a node of: it takes parameters' gradients."""

    def __init__(
        self,
        heap: Heap,
        *,
        accumulates: bool = False,
        gpu: Gpu | None = None,
        torch: tuple[int, int] = (2, 13),
        outer: WholeGraph | None = None,
    ) -> None:
        super().__init__(heap, accumulates=accumulates, gpu=gpu, torch=torch)
        self.unit = 0
        self.marks: list[Mark] = []
        self.arrived: list[int] = []
        self.uses: Counter[str] = Counter()
        self.outer = outer
        #: Nodes that backward does not come to, of what the caller holds: they keep what they saved.
        self.stranded: list[Node] = []
        self._kept: frozenset[int] = frozenset()
        self._sums: dict[str, tuple[Edge, Tensor]] = {}
        self._leaves: dict[int, tuple[str, Storage]] = {}

    def strand(self, held: Sequence[Tensor], root: Tensor) -> None:
        """The caller holds these tensors beside the loss: what they are made of and the loss is not stays as long
        (torch/csrc/autograd/variable.h: a tensor owns its grad_fn)."""
        visited = _behind([root])
        self.stranded = [each for each in _behind(held).values() if each.sequence not in visited]
        self._kept = frozenset(each.sequence for each in self.stranded)

    def drop_saved(self, node: Node) -> None:
        """What the node has kept is kept no longer, unless the caller holds what it made."""
        if node.sequence not in self._kept:
            super().drop_saved(node)

    def edge(self, tensor: Tensor | None) -> Edge | None:
        """As ever; a leaf that is no parameter has a name of its own."""
        found = super().edge(tensor)
        if tensor is None or found is None or found.node is not None or found.parameter:
            return found
        if self.outer is not None:
            return self.outer.edge(tensor)
        known = self._leaves.setdefault(id(tensor.storage), (f"{LEAF} {len(self._leaves)}>", tensor.storage))
        return replace(found, parameter=known[0])

    def add(self, name: str, arguments: Sequence[Tensor | None], results: Sequence[Tensor]) -> Node:
        """A node of the unit that runs now."""
        node = super().add(name, arguments, results)
        node.attributes["unit"] = self.unit
        self.uses.update(
            each.parameter for each in node.edges if each is not None and each.node is None and each.parameter
        )
        return node

    def _run(self, node: Node) -> None:
        unit = node.attributes["unit"]
        assert isinstance(unit, int)
        if unit != self.unit:
            self.unit = unit
            self.marks.append(Mark(len(self.heap.events), unit))
        super()._run(node)

    def _leaf(self, edge: Edge, grad: Tensor) -> None:
        if self.outer is not None:
            self.outer.take(edge, grad)
        else:
            self.take(edge, grad)

    def take(self, edge: Edge, grad: Tensor) -> None:
        """A leaf's gradient of one of its uses."""
        name = edge.parameter
        self.uses[name] -= 1
        known = self._sums.pop(name, None)
        if known is not None:
            grad = self._sum(known[1], grad)
        if self.uses[name] > 0:
            self._sums[name] = (edge, grad)
            return
        self._arrive(edge, grad)

    def finish(self) -> None:
        """Some uses gave no gradient: the others' are all there is."""
        for edge, grad in self._sums.values():
            self._arrive(edge, grad)
        self._sums.clear()

    def _arrive(self, edge: Edge, grad: Tensor) -> None:
        accumulates = self.accumulates
        # Gradients of other leaves are new each time.
        self.accumulates = accumulates and not edge.parameter.startswith(LEAF)
        super()._leaf(edge, grad)
        self.accumulates = accumulates
        while len(self.arrived) < len(self.leaves):
            self.arrived.append(len(self.heap.events))

    def from_roots(self, entries: Sequence[Node]) -> None:
        """Runs backward from the nodes that have gradients already, down to `entries`, which are left with theirs."""
        for each in reversed(self.nodes):
            if each in entries:
                continue
            if any(got is not None for got in each.grads):
                self._run(each)
            else:
                self.drop_saved(each)


def _behind(tensors: Sequence[Tensor]) -> dict[int, Node]:
    """The nodes that made these tensors, and what they are made of, by number."""
    found: dict[int, Node] = {}
    waiting = [each.node for each in tensors]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node) and node.sequence not in found:
            found[node.sequence] = node
            waiting += [each.node for each in node.edges if each is not None]
    return found
