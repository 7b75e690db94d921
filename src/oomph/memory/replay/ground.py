"""Where memory was before the first recorded event: segments and mapped ranges, without their blocks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from oomph.memory.allocator.layout import Reservation, SegmentState
from oomph.memory.allocator.sizes import LARGE_SEGMENT_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES
from oomph.memory.timeline import Kind, Timeline
from oomph.units import GIB

#: More than any device has, as a whole number of pages of either size: how far a reservation may grow.
_RESERVED_BYTES = 1160 * GIB


@dataclass(frozen=True)
class Ground:
    """Bytes from `address` to `end` that PyTorch held, without a word on what is in them."""

    address: int
    end: int
    stream: int
    pool: tuple[int, int]
    small: bool
    expandable: bool

    @property
    def size(self) -> int:
        return self.end - self.address


def ground_at_start(
    final: Sequence[SegmentState], timeline: Timeline, large_page: int = LARGE_SEGMENT_BYTES
) -> list[Ground]:
    """The segments at the end with the trace's segment events undone, last event first; in address order.
    `large_page` (bytes) is what expandable memory of the large pool is mapped in."""
    whole = _grounds(final)
    fixed = {ground.address: ground for ground in whole if not ground.expandable}
    mapped = _Ranges([ground for ground in whole if ground.expandable], timeline, large_page)
    changes = timeline.positions(Kind.SEGMENT_ALLOC, Kind.SEGMENT_FREE, Kind.SEGMENT_MAP, Kind.SEGMENT_UNMAP)
    # As lists: to look into a column one by one takes longer than all the rest.
    columns = (timeline.kind, timeline.address, timeline.size_bytes)
    rows = zip(changes.tolist(), *(column[changes].tolist() for column in columns), strict=True)
    for position, kind, address, size in reversed(list(rows)):
        if kind == Kind.SEGMENT_ALLOC:
            fixed.pop(address, None)
        elif kind == Kind.SEGMENT_FREE:
            fixed[address] = Ground(
                address,
                address + size,
                int(timeline.stream[position]),
                timeline.pool_at(position),
                size == SMALL_SEGMENT_BYTES,
                expandable=False,
            )
        elif kind == Kind.SEGMENT_MAP:
            mapped.remove(address, address + size)
        else:
            mapped.add(position)
    return sorted([*fixed.values(), *mapped.grounds()], key=lambda ground: ground.address)


def reservations(
    final: Sequence[SegmentState],
    timeline: Timeline,
    start: Sequence[Ground],
    large_page: int = LARGE_SEGMENT_BYTES,
) -> list[Reservation]:
    """The address ranges of expandable segments of which something is mapped at the start.

    A reservation begins where the lowest of its bytes is ever mapped: PyTorch maps a new one from its beginning, and
    gives it up when all of it is unmapped.
    """
    lowest: dict[tuple[int, tuple[int, int], bool], int] = {}
    held: Counter[tuple[int, tuple[int, int], bool]] = Counter()
    for ground in start:
        if ground.expandable:
            owner = (ground.stream, ground.pool, ground.small)
            lowest.setdefault(owner, ground.address)
            held[owner] += ground.size
    if not lowest:
        return []
    ends = [ground for ground in _grounds(final) if ground.expandable]
    mapped = _Ranges([*ends, *(ground for ground in start if ground.expandable)], timeline, large_page)
    for position in timeline.positions(Kind.SEGMENT_MAP, Kind.SEGMENT_UNMAP).tolist():
        ground = mapped.describe(position)
        owner = (ground.stream, ground.pool, ground.small)
        if held[owner] <= 0:  # nothing of it at the start, or given up since
            continue
        lowest[owner] = min(lowest[owner], ground.address)
        held[owner] += ground.size if timeline.kind[position] == Kind.SEGMENT_MAP else -ground.size
    return [
        Reservation(address, _RESERVED_BYTES, stream, pool, small)
        for (stream, pool, small), address in lowest.items()
    ]


def _grounds(segments: Sequence[SegmentState]) -> list[Ground]:
    return [
        Ground(each.address, each.address + each.size, each.stream, each.pool, each.small, each.expandable)
        for each in segments
    ]


class _Ranges:
    """Mapped ranges of expandable segments, to which and from which parts are taken. Ranges that touch and serve the
    same stream and pool are one, as a snapshot shows them."""

    def __init__(self, grounds: list[Ground], timeline: Timeline, large_page: int) -> None:
        self._large_page = large_page
        self._grounds = sorted(grounds, key=lambda ground: ground.address)
        self._timeline = timeline
        self._known = tuple(self._grounds)
        # How far the ranges reach up to each: known ones may lie in each other, those at the end in those at the start.
        self._reach = list(accumulate((ground.end for ground in self._known), max))

    def grounds(self) -> list[Ground]:
        return self._grounds

    def remove(self, start: int, end: int) -> None:
        kept = []
        first, last = self._touching(start, end)
        for ground in self._grounds[first:last]:
            if ground.address < start:
                kept.append(_cut(ground, ground.address, min(start, ground.end)))
            if ground.end > end:
                kept.append(_cut(ground, max(end, ground.address), ground.end))
        self._grounds[first:last] = kept

    def describe(self, position: int) -> Ground:
        """What the event at `position` mapped or unmapped."""
        events = self._timeline
        start, stream = int(events.address[position]), int(events.stream[position])
        end = start + int(events.size_bytes[position])
        place = bisect_right(self._reach, start)  # the first that ends behind the start
        if place < len(self._known) and self._known[place].address <= start:
            ground = self._known[place]
            return Ground(start, end, ground.stream, ground.pool, ground.small, expandable=True)
        small = self._is_small(start, end, events.kind[position] == Kind.SEGMENT_MAP)
        return Ground(start, end, stream, events.pool_at(position), small, expandable=True)

    def add(self, position: int) -> None:
        """Maps again what the event at `position` unmapped."""
        new = self.describe(position)
        first, last = self._touching(new.address - 1, new.end + 1)
        kept = []
        for ground in self._grounds[first:last]:
            same = (ground.stream, ground.pool, ground.small) == (new.stream, new.pool, new.small)
            if same:
                new = _cut(new, min(new.address, ground.address), max(new.end, ground.end))
            else:
                kept.append(ground)
        self._grounds[first:last] = sorted([*kept, new], key=lambda ground: ground.address)

    def _touching(self, start: int, end: int) -> tuple[int, int]:
        """From which to which of the ranges has bytes between `start` and `end`."""
        first = bisect_right(self._grounds, start, key=lambda ground: ground.end)
        last = bisect_left(self._grounds, end, key=lambda ground: ground.address)
        return first, max(first, last)

    def _is_small(self, start: int, end: int, mapped: bool) -> bool:
        """Whether a range that is not there at the end served the small pool. Large memory comes and goes in large
        pages, and a small request never needs more than two small ones at once. A number of small pages that were
        given up together can make a large one: then what the trace allocates there decides."""
        if (end - start) % self._large_page:
            return True
        if mapped:
            return False
        addresses, positions = self._allocations
        there = positions[np.searchsorted(addresses, start) : np.searchsorted(addresses, end)]
        return bool(len(there)) and int(self._timeline.size_bytes[there.min()]) <= SMALL_BYTES

    @cached_property
    def _allocations(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Addresses that the trace allocates, ascending, and where it does."""
        positions = self._timeline.positions(Kind.ALLOC)
        addresses = self._timeline.address[positions]
        order = np.argsort(addresses, kind="stable")
        return addresses[order], positions[order]


def _cut(ground: Ground, start: int, end: int) -> Ground:
    return Ground(start, end, ground.stream, ground.pool, ground.small, ground.expandable)
