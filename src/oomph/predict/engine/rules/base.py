"""The table of operators: how each enters the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oomph.hardware.gpus import Gpu
from oomph.predict.engine.graph import Grads, Graph, Node
from oomph.predict.engine.heap import Heap, Tensor


@dataclass(slots=True)
class Call:
    """One operator as it runs: its tensor arguments in order (parameters among them), the other arguments as recorded,
    and the results, which are allocated already."""

    name: str
    tensors: list[Tensor | None]
    arguments: Sequence[object]
    results: list[Tensor]
    graph: Graph
    gpu: Gpu | None = None
    torch: tuple[int, int] = (2, 13)
    needs: list[bool] = field(default_factory=list)

    def number(self, position: int, default: float) -> float:
        """The argument at `position`, where it is a number."""
        if position < len(self.arguments):
            value = self.arguments[position]
            if isinstance(value, (int, float)):
                return float(value)
        return default

    def node(
        self, *, edges: Sequence[Tensor | None] | None = None, results: Sequence[Tensor] | None = None
    ) -> Node:
        """Enters the graph; `edges` are the arguments that can have gradients (default: all tensors)."""
        return self.graph.add(
            self.name, self.tensors if edges is None else edges, self.results if results is None else results
        )


Rule = Callable[[Call], None]
Back = Callable[[Heap, Node, Grads], Sequence[Tensor | None]]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operators by name (without the overload: `aten.mul`)."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def first(grads: Grads) -> Tensor:
    """The gradient of the only result that has one."""
    for grad in grads:
        if grad is not None:
            return grad
    raise RuntimeError("a node runs without a gradient")
