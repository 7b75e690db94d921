"""From events to blocks: when each was born, asked back and given back.

One row per block that the trace knows, as columns. All of it is sorting and searching in arrays: a trace of a million
events has some three hundred thousand blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oomph.memory.allocator.layout import INACTIVE, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import MIN_BLOCK_BYTES, SMALL_BYTES, round_size
from oomph.memory.replay.start import Start
from oomph.memory.timeline import DEFAULT_POOL, UNKNOWN, Kind, Timeline

Ints = NDArray[np.int64]

#: `born` of a block that was there when the trace began.
BEFORE = -1


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """One entry per block in every column; blocks from before the trace come first, then in the order of birth.

    address, requested_bytes; size_bytes: the block's size, as PyTorch counts it in allocated_bytes (rounded; a rest
    that was too small to split off is not counted for blocks born in the trace). born: position of the ALLOC, BEFORE
    (-1) without one. freed, done: positions of FREE_REQUESTED and FREE_COMPLETED; `events` where the trace has none.
    small: of the small pool. pool: index into `pools`. A block whose address is allocated again without a free in
    between ends there: its free was not recorded.
    """

    address: Ints
    requested_bytes: Ints
    size_bytes: Ints
    stream: Ints
    pool: NDArray[np.int32]
    small: NDArray[np.bool_]
    born: Ints
    freed: Ints
    done: Ints
    pools: tuple[tuple[int, int], ...]
    events: int

    def __len__(self) -> int:
        return len(self.address)

    def alive_at(self, position: int) -> NDArray[np.intp]:
        """Rows of the blocks that are allocated after the event at `position` (-1: when the trace begins)."""
        return np.flatnonzero((self.born <= position) & (self.freed > position))

    def allocated_changes(self) -> Ints:
        """By how much each event changes the allocated bytes."""
        change = np.zeros(self.events, np.int64)
        inside = self.born >= 0
        change[self.born[inside]] += self.size_bytes[inside]
        ends = (self.freed < self.events) & (self.freed >= 0)
        change[self.freed[ends]] -= self.size_bytes[ends]
        return change


def lifetimes(
    timeline: Timeline,
    start: Start,
    settings: AllocatorSettings | None = None,
    final: Sequence[SegmentState] = (),
) -> Lifetimes:
    """The blocks of a trace that began with `start`. `final` are the segments at its end: where events do not name
    their pool (before PyTorch 2.13), the segment at a block's address tells it."""
    return _Builder(timeline, start, settings or AllocatorSettings(), final).build()


class _Builder:
    def __init__(
        self,
        timeline: Timeline,
        start: Start,
        settings: AllocatorSettings,
        final: Sequence[SegmentState],
    ) -> None:
        self._timeline = timeline
        self._settings = settings
        self._segments = [*start.segments, *final]
        self._before = _Before(start)
        self._completions = start.completions

    def build(self) -> Lifetimes:
        events = self._timeline
        total = len(events)
        head, freed, done = self._groups()
        from_before = events.kind[head] != Kind.ALLOC
        born = np.where(from_before, BEFORE, head)
        address = events.address[head]
        # A free that was asked for before the trace began.
        pending = from_before & (freed == total) & (done < total)
        freed = np.where(pending, BEFORE, freed)
        untouched = self._before.without(address[from_before])
        requested = np.concatenate((self._before.requested[untouched], events.size_bytes[head]))
        address = np.concatenate((self._before.address[untouched], address))
        born = np.concatenate((np.full(len(untouched), BEFORE, np.int64), born))
        freed = np.concatenate((self._before.freed(untouched, total), freed))
        done = np.concatenate((np.full(len(untouched), total, np.int64), done))
        stream = np.concatenate((self._before.stream[untouched], events.stream[head]))
        size = self._rounded(requested)
        small = size <= SMALL_BYTES
        self._before.fill(size, address, born == BEFORE)
        named = np.concatenate((np.full(len(untouched), UNKNOWN, np.int32), events.pool[head]))
        pools, pool = self._pools(address, named)
        order = np.argsort(born, kind="stable")
        return Lifetimes(
            address=address[order],
            requested_bytes=requested[order],
            size_bytes=size[order],
            stream=stream[order],
            pool=pool[order],
            small=small[order],
            born=born[order],
            freed=freed[order],
            done=done[order],
            pools=pools,
            events=total,
        )

    def _groups(self) -> tuple[Ints, Ints, Ints]:
        """Events of one address in their order, cut at each ALLOC: the position of the first event of each piece, of
        its first free and of its first completion."""
        events = self._timeline
        total = len(events)
        positions = events.by_address
        kinds, addresses = events.kind[positions], events.address[positions]
        begins = kinds == Kind.ALLOC
        if len(positions):
            begins[0] = True
            begins[1:] |= addresses[1:] != addresses[:-1]
        group = np.cumsum(begins) - 1
        head = positions[begins].astype(np.int64)
        freed = _first(kinds == Kind.FREE_REQUESTED, group, positions, len(head), total)
        done = _first(kinds == Kind.FREE_COMPLETED, group, positions, len(head), total)
        if not self._completions:
            done = freed.copy()
        freed = np.minimum(freed, np.where(done < freed, done, freed))
        self._close(head, events.address[head], freed, done, total)
        # A free from before the trace is told by its completion alone.
        alone = (events.kind[head] == Kind.FREE_COMPLETED) & (freed == done)
        freed[alone] = total
        return head, freed, done

    def _close(self, head: Ints, address: Ints, freed: Ints, done: Ints, total: int) -> None:
        """Ends each block at the latest where the next one of its address begins."""
        if len(head) < 2:
            return
        following = np.full(len(head), total, np.int64)
        same = address[1:] == address[:-1]
        following[:-1][same] = head[1:][same]
        np.minimum(freed, following, out=freed)
        np.minimum(done, following, out=done)

    def _rounded(self, requested: Ints) -> Ints:
        divisions, least = self._settings.roundup_power2_divisions, self._settings.least_divisions
        if not divisions:
            return np.maximum((requested + (MIN_BLOCK_BYTES - 1)) // MIN_BLOCK_BYTES, 1) * MIN_BLOCK_BYTES
        values, where = np.unique(requested, return_inverse=True)
        rounded = [round_size(value, divisions, least) for value in values.tolist()]
        return np.array(rounded, np.int64)[where] if rounded else requested

    def _pools(
        self, address: Ints, named: NDArray[np.int32]
    ) -> tuple[tuple[tuple[int, int], ...], NDArray[np.int32]]:
        """The pool of each block: as its event says, else that of the segment at its address."""
        pools = dict.fromkeys((DEFAULT_POOL, *self._timeline.pools))
        pools.update(dict.fromkeys(segment.pool for segment in self._segments))
        index = {pool: number for number, pool in enumerate(pools)}
        result = np.zeros(len(address), np.int32)
        if len(index) > 1:
            result = self._by_segment(address, index)
            known = named >= 0
            translate = np.array([index[pool] for pool in self._timeline.pools] or [0], np.int32)
            result[known] = translate[named[known]]
        return tuple(pools), result

    def _by_segment(self, address: Ints, index: dict[tuple[int, int], int]) -> NDArray[np.int32]:
        private = sorted((s.address, s.address + s.size, index[s.pool]) for s in self._segments)
        begins = np.array([one[0] for one in private], np.int64)
        ends = np.array([one[1] for one in private], np.int64)
        numbers = np.array([one[2] for one in private], np.int32)
        if not private:  # nothing is held at either end
            return np.full(len(address), index[DEFAULT_POOL], np.int32)
        place = np.searchsorted(begins, address, side="right") - 1
        inside = (place >= 0) & (address < ends[place])
        return np.where(inside, numbers[place], np.int32(index[DEFAULT_POOL])).astype(np.int32)


class _Before:
    """The blocks in use when the trace began, by address."""

    def __init__(self, start: Start) -> None:
        found = [
            (block.address, block.size, block.requested, segment.stream, block.state)
            for segment in start.segments
            for block in segment.blocks
            if block.state != INACTIVE
        ]
        found.sort()
        self.address = np.array([one[0] for one in found], np.int64)
        self.size = np.array([one[1] for one in found], np.int64)
        self.requested = np.array([one[2] for one in found], np.int64)
        self.stream = np.array([one[3] for one in found], np.int64)
        self._pending = np.array([one[4] != "active_allocated" for one in found], bool)

    def without(self, addresses: Ints) -> NDArray[np.intp]:
        """Those that are not at any of these addresses."""
        return np.flatnonzero(~np.isin(self.address, addresses))

    def freed(self, rows: NDArray[np.intp], total: int) -> Ints:
        """One that waits for other streams was asked back before the trace."""
        return np.where(self._pending[rows], BEFORE, total).astype(np.int64)

    def fill(self, size: Ints, address: Ints, from_before: NDArray[np.bool_]) -> None:
        """Puts the exact sizes into `size` for the blocks that were there before."""
        if not len(self.address):
            return
        rows = np.flatnonzero(from_before)
        place = np.searchsorted(self.address, address[rows])
        place = np.minimum(place, len(self.address) - 1)
        known = self.address[place] == address[rows]
        size[rows[known]] = self.size[place[known]]


def _first(
    chosen: NDArray[np.bool_], group: NDArray[np.intp], positions: NDArray[np.intp], groups: int, default: int
) -> Ints:
    """For each group the position of its first chosen event, `default` without one. Groups are in ascending order."""
    result = np.full(groups, default, np.int64)
    where = np.flatnonzero(chosen)
    if len(where):
        of = group[where]
        is_first = np.ones(len(of), bool)
        is_first[1:] = of[1:] != of[:-1]
        result[of[is_first]] = positions[where[is_first]]
    return result
