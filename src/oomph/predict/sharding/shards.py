"""Arithmetic of shards, and small things that all strategies share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
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
    by_kind: dict[int, _Made] = {}
    kinds = [_kind(unit.parameters) for unit in units]
    for unit, kind in zip(units, kinds, strict=True):
        if kind not in by_kind:
            by_kind[kind] = make(unit)
    return [by_kind[kind] for kind in kinds]


#: Numbers of equal parameters; and the number of each tuple that was seen, which is kept, so that its identity stays
#: its own. A search asks for those of the same few tuples many times.
_NUMBERS: dict[tuple[UnitParameter, ...], int] = {}
_SEEN: dict[int, tuple[tuple[UnitParameter, ...], int]] = {}
_MOST_SEEN = 100_000
_NEXT = count()


def _kind(parameters: tuple[UnitParameter, ...]) -> int:
    """A number that equal parameters share."""
    known = _SEEN.get(id(parameters))
    if known is None:
        if len(_SEEN) >= _MOST_SEEN:
            _SEEN.clear()
            _NUMBERS.clear()
        number = _NUMBERS.setdefault(parameters, next(_NEXT))
        known = _SEEN[id(parameters)] = (parameters, number)
    return known[1]
