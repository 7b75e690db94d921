"""All scenarios by name, each as a function of seed and style of stacks."""

from __future__ import annotations

from collections.abc import Callable

from tests.snapshots.scenarios import elsewhere, fragmentation, full, growth, training
from tests.snapshots.written import Made

Scenario = Callable[[int, str], Made]


def _roomy(run: Callable[[int, str], growth.Run]) -> Scenario:
    return lambda seed, style: run(seed, style).roomy()


FULL: dict[str, Scenario] = {
    **{f"full.{name}": way for name, way in full.WAYS.items()},
    "full.half": fragmentation.half,
    "full.outside_grew_too": lambda seed, style: elsewhere.outside_grew(seed, style, enough=False),
}
FRAGMENTED: dict[str, Scenario] = {
    "fragmentation.tails": fragmentation.tails,
    "fragmentation.heads": fragmentation.heads,
    "fragmentation.expandable": fragmentation.expandable,
}
ELSEWHERE: dict[str, Scenario] = {
    f"elsewhere.{way.__name__}": way
    for way in (
        elsewhere.capped,
        elsewhere.side_stream,
        elsewhere.graph_pool,
        elsewhere.large_pool,
        elsewhere.outside_grew,
        elsewhere.outside_grew_between_failures,
    )
}
TRAINING: dict[str, Scenario] = {
    f"training.{name}": way for name, way in {**training.DYING, **training.LIVING}.items()
}
GROWTH: dict[str, Scenario] = {
    f"growth.{name}": _roomy(way) for name, way in {**growth.LEAKS, **growth.NONE}.items()
}
SCENARIOS: dict[str, Scenario] = {**FULL, **FRAGMENTED, **ELSEWHERE, **TRAINING, **GROWTH}
