"""The choices of which none is worse than another in everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether `one` is nowhere larger than `other`, and somewhere smaller. Smaller is better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def pareto(items: Iterable[_T], key: Callable[[_T], tuple[float, ...]]) -> list[_T]:
    """The items that none dominates, in their order; of items with the same key the first."""
    keyed = [(key(item), item) for item in items]
    kept: list[tuple[tuple[float, ...], _T]] = []
    for mine, item in sorted(keyed, key=lambda each: each[0]):
        if not any(theirs == mine or dominates(theirs, mine) for theirs, _ in kept):
            kept.append((mine, item))
    chosen = {id(item) for _, item in kept}
    return [item for _, item in keyed if id(item) in chosen]
