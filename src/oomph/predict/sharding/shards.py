"""Arithmetic of shards, and small things that all strategies share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oomph.memory.categories import Category
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sink import Sink, rounded

_Made = TypeVar("_Made")

#: Numbers of streams, as events carry them; 0 computes. Each has a pool of cached memory of its own.
GATHER, CAST, REDUCE, REPLICATE = 1, 2, 3, 4


def pieces(count: int, ranks: int) -> int:
    """The size of all pieces but the last ones: torch.chunk gives ceil(count / ranks) to each rank until none is left
    (aten/src/ATen/native/TensorShape.cpp)."""
    return -(-count // ranks)


def piece(count: int, ranks: int, rank: int) -> int:
    """The size of one rank's piece; 0 where earlier ranks have taken all."""
    size = pieces(count, ranks)
    return max(0, min(size, count - rank * size))


@dataclass(frozen=True)
class Group:
    """The ranks that share one copy of the parameters, and this one's place. `replicas` such groups hold copies."""

    ranks: int = 1
    rank: int = 0
    replicas: int = 1


def alloc_all(
    sink: Sink, sizes_bytes: Sequence[int], category: Category, name: str, stream: int = 0
) -> list[int]:
    """Blocks that are allocated and freed together: one for each size, or, where only sums matter, one for all."""
    if isinstance(sink, PeakSink):
        return [sink.alloc(sum(map(rounded, sizes_bytes)), category, name, stream)]
    return [sink.alloc(size, category, name, stream) for size in sizes_bytes]


def free_all(sink: Sink, handles: Sequence[int]) -> None:
    """Frees blocks in their order."""
    for handle in handles:
        sink.free(handle)


def free_grads(sink: Sink, grads: Sequence[Grad]) -> None:
    """Frees gradients in their order."""
    for grad in grads:
        sink.free(grad.handle)


def trainable(units: Sequence[Unit]) -> list[UnitParameter]:
    """The parameters that train, unit by unit."""
    return [each for unit in units for each in unit.parameters if each.trainable]


def for_each(units: Sequence[Unit], make: Callable[[Unit], _Made]) -> list[_Made]:
    """`make` of each unit; units with the same parameters share what was made of the first."""
    by_identity: dict[int, _Made] = {}
    by_value: dict[tuple[UnitParameter, ...], _Made] = {}
    for unit in units:
        place = id(unit.parameters)
        if place not in by_identity:
            if unit.parameters not in by_value:
                by_value[unit.parameters] = make(unit)
            by_identity[place] = by_value[unit.parameters]
    return [by_identity[id(unit.parameters)] for unit in units]
