"""The least cut of a small graph (Edmonds-Karp): what torch.compile's partitioner asks networkx for."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

ENDLESS = float("inf")


class Network:
    """Capacities between nodes. Edges may be added twice; their capacities add up."""

    def __init__(self) -> None:
        self._edges: dict[Hashable, dict[Hashable, float]] = {}

    def add(self, start: Hashable, end: Hashable, capacity: float) -> None:
        """An edge."""
        self._edges.setdefault(start, {})
        self._edges[start][end] = self._edges[start].get(end, 0.0) + capacity
        self._edges.setdefault(end, {}).setdefault(start, 0.0)

    def reachable_after_cut(self, source: Hashable, sink: Hashable) -> set[Hashable]:
        """The nodes on the source's side of a least cut. Raises ValueError where no finite cut exists."""
        while True:
            parents = self._path(source)
            if sink not in parents:
                return set(parents)
            self._push(parents, source, sink)

    def _path(self, source: Hashable) -> dict[Hashable, Hashable]:
        parents: dict[Hashable, Hashable] = {source: source}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for other, capacity in self._edges.get(node, {}).items():
                if capacity > 0 and other not in parents:
                    parents[other] = node
                    queue.append(other)
        return parents

    def _push(self, parents: dict[Hashable, Hashable], source: Hashable, sink: Hashable) -> None:
        path = []
        node = sink
        while node != source:
            path.append((parents[node], node))
            node = parents[node]
        least = min(self._edges[start][end] for start, end in path)
        if least == ENDLESS:
            raise ValueError("Nothing cuts the source from the sink.")
        for start, end in path:
            self._edges[start][end] -= least
            self._edges[end][start] += least
