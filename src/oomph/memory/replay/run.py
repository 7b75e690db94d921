"""One trace, event after event, through the simulated allocator."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory, ReplayError
from oomph.memory.allocator.layout import INACTIVE, PENDING_FREE, BlockState, Reservation, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import SMALL_BYTES
from oomph.memory.replay.start import Start
from oomph.memory.timeline import DEFAULT_POOL, UNKNOWN, Kind, Timeline
from oomph.units import GIB

#: Simulated segment events in the words of a timeline.
KINDS = {
    arena.SEGMENT_ALLOC: Kind.SEGMENT_ALLOC,
    arena.SEGMENT_FREE: Kind.SEGMENT_FREE,
    arena.SEGMENT_MAP: Kind.SEGMENT_MAP,
    arena.SEGMENT_UNMAP: Kind.SEGMENT_UNMAP,
    arena.OOM: Kind.OOM,
}
#: More than any device has: ranges of addresses that are reserved for expandable segments never run out.
_DEVICE_BYTES = 1024 * GIB
#: So many differences are described; the rest is counted.
MOST_MISSES = 5
#: How far a replay without real addresses moves the memory that it starts with: below or above the addresses that a
#: driver makes up.
BELOW = 1 << 50
ABOVE = 1 << 58


class Run:
    """Feeds a trace to a fresh allocator. `allocator` is the simulation, `where` the simulated address of each live
    block by its recorded address.

    Requests and frees come from the trace. When cached memory was released follows from `capacity_bytes`, and comes
    from the trace at `moments`: the positions of releases at which the simulation is to empty its cache.
    """

    def __init__(
        self,
        start: Start,
        timeline: Timeline,
        settings: AllocatorSettings,
        *,
        driver: Driver,
        offset: int = 0,
        moments: Collection[int] = (),
        capacity_bytes: int | None = None,
        pools: PoolMap | None = None,
    ) -> None:
        self.timeline = timeline
        # A capacity is what was left of the device, of whose whole size reservations are 9/8.
        device = _DEVICE_BYTES if settings.fraction is None else None
        self.allocator = CachingAllocator(settings, capacity_bytes, driver, device_total_bytes=device)
        self.where: dict[int, int] = {}
        self.addresses_right = 0
        self.addresses_total = 0
        self.problems = 0
        self.ooms: list[int] = []
        self.misses: list[str] = []
        self._settings = settings
        self._driver = driver
        self._offset = offset
        self._moments = moments
        self._pools = pools
        self._capacity = capacity_bytes
        self._completions = start.completions
        self._waiting: set[int] = set()
        self._plant(start)

    def _plant(self, start: Start) -> None:
        plant(self.allocator, start, self._offset)
        for segment in start.segments:
            for block in segment.blocks:
                if block.state != INACTIVE:
                    self.where[block.address] = block.address + self._offset
                if block.state == PENDING_FREE:
                    self._waiting.add(block.address)

    def run(self) -> None:
        """All events; up to the first that no allocator could have recorded (segments that overlap, for example)."""
        try:
            self._events()
        except ReplayError as error:
            self.problems += 1
            self._miss(f"the trace contradicts itself, and was left there: {error}")

    def _events(self) -> None:
        events = self.timeline
        feed = self._driver.feed if self._offset == 0 else None
        at_once = completes_at_once(events).tolist() if self._completions else [True] * len(events)
        releasing = False
        fed = False
        alloc, free, done = int(Kind.ALLOC), int(Kind.FREE_REQUESTED), int(Kind.FREE_COMPLETED)
        grows = (int(Kind.SEGMENT_ALLOC), int(Kind.SEGMENT_MAP))
        shrinks = (int(Kind.SEGMENT_FREE), int(Kind.SEGMENT_UNMAP))
        columns = zip(
            events.kind.tolist(),
            events.address.tolist(),
            events.size_bytes.tolist(),
            events.stream.tolist(),
            strict=True,
        )
        for position, (kind, address, size, stream) in enumerate(columns):
            if kind == alloc:
                releasing = False
                self._allocate(position, address, size, stream)
                if fed:
                    self._driver.clear()
                    fed = False
            elif kind == free:
                releasing = False
                self._free(address, at_once[position])
            elif kind == done:
                self._complete(address)
            elif kind in grows:
                releasing = False
                if feed is not None:
                    feed(address)
                    fed = True
            elif kind in shrinks:
                if not releasing and position in self._moments:
                    self.allocator.empty_cache()
                releasing = True
            elif kind == Kind.OOM:
                releasing = False
                self._fail(position, size, stream)

    def _allocate(self, position: int, address: int, size: int, stream: int) -> None:
        self.addresses_total += 1
        pool = DEFAULT_POOL if self._pools is None else self._pools.of(position, address)
        try:
            got = self.allocator.malloc(size, stream, pool)
        except DeviceOutOfMemory as error:
            self.ooms.append(position)
            self._miss(f"event {position}: no memory for a request that succeeded: {error}")
            self.where.pop(address, None)
            return
        if got == address + self._offset:
            self.addresses_right += 1
        elif self._offset == 0:
            self._miss(f"event {position}: {size} bytes at {got:#x}, recorded at {address:#x}")
        self.where[address] = got

    def _free(self, address: int, at_once: bool) -> None:
        block = self.where.get(address)
        if block is None:
            self.problems += 1
            return
        try:
            if at_once:
                del self.where[address]
                self.allocator.free(block)
            else:
                self._waiting.add(address)
                self.allocator.free_requested(block)
        except ReplayError:
            self.problems += 1

    def _complete(self, address: int) -> None:
        """The end of a free that had to wait for other streams; releasing cached memory may have ended it before."""
        if address not in self._waiting:
            return
        self._waiting.discard(address)
        block = self.where.pop(address, None)
        if block is None:
            self.problems += 1
            return
        try:
            self.allocator.complete(block)
        except ReplayError:
            if self._capacity is None:
                self.problems += 1

    def _fail(self, position: int, size: int, stream: int) -> None:
        """A request that failed. With a capacity the simulation fails by itself, else it is told that all is used."""
        pool = DEFAULT_POOL if self._pools is None else self._pools.of(position, 0)
        told = self._capacity is None
        if self._settings.expandable_segments and self._offset == 0:
            address = self._next_map(position, size, stream)
            if address is not None:
                self._driver.feed(address)
        unlimited = self.allocator.capacity
        if told:
            self.allocator.capacity = self.allocator.reserved_bytes
        try:
            self.allocator.malloc(size, stream, pool)
        except DeviceOutOfMemory:
            self.ooms.append(position)
        else:
            self._miss(f"event {position}: memory for a request of {size} bytes that failed")
        if told:
            self.allocator.capacity = unlimited
        self._driver.clear()

    def _next_map(self, position: int, size: int, stream: int) -> int | None:
        """Where the trace next maps memory for such a request. One that fails can leave a range of addresses behind,
        reserved and without a byte in it; its address is recorded only when something is mapped there."""
        events = self.timeline
        page = self._settings.large_segment_size_bytes
        later = slice(position, None)
        fits = (events.size_bytes[later] % page == 0) == (size > SMALL_BYTES)
        maps = (events.kind[later] == Kind.SEGMENT_MAP) & (events.stream[later] == stream) & fits
        return int(events.address[position + int(np.argmax(maps))]) if maps.any() else None

    def _miss(self, text: str) -> None:
        if len(self.misses) < MOST_MISSES:
            self.misses.append(text)


class PoolMap:
    """Which private pool an allocation went to: as its event says, else the pool of the segment at its address."""

    def __init__(self, timeline: Timeline, segments: Sequence[SegmentState]) -> None:
        self._timeline = timeline
        self._named = timeline.pool.tolist()
        self._segments = sorted(segments, key=lambda segment: segment.address)
        self._addresses = [segment.address for segment in self._segments]

    @classmethod
    def needed(cls, timeline: Timeline, segments: Sequence[SegmentState]) -> PoolMap | None:
        """None where everything is in the default pool."""
        private = any(segment.pool != DEFAULT_POOL for segment in segments)
        if private or any(pool != DEFAULT_POOL for pool in timeline.pools):
            return cls(timeline, segments)
        return None

    def of(self, position: int, address: int) -> tuple[int, int]:
        named = self._named[position]
        if named != UNKNOWN:
            return self._timeline.pools[named]
        place = bisect_right(self._addresses, address) - 1
        if place < 0 or address >= self._addresses[place] + self._segments[place].size:
            return DEFAULT_POOL
        return self._segments[place].pool


def completes_at_once(events: Timeline) -> NDArray[np.bool_]:
    """For each event whether the next is the completion of the same block."""
    result = np.zeros(len(events), np.bool_)
    result[:-1] = (events.kind[1:] == Kind.FREE_COMPLETED) & (events.address[1:] == events.address[:-1])
    return result


def ascending(timeline: Timeline) -> bool:
    """Whether the driver put most new segments above the one before, as on Windows."""
    bases = timeline.address[timeline.positions(Kind.SEGMENT_ALLOC)]
    return int(np.sum(np.diff(bases) > 0)) * 2 > max(len(bases) - 1, 0)


def plant(allocator: CachingAllocator, start: Start, offset: int) -> None:
    """Gives a fresh allocator the segments of a trace's start, moved up by `offset` bytes."""
    segments = [_moved(segment, offset) for segment in start.segments]
    allocator.seed(segments, [_shifted(each, offset) for each in start.reservations])


def _shifted(reserved: Reservation, offset: int) -> Reservation:
    return Reservation(
        reserved.address + offset, reserved.size, reserved.stream, reserved.pool, reserved.small
    )


def _moved(segment: SegmentState, offset: int) -> SegmentState:
    if offset == 0:
        return segment
    blocks = [BlockState(b.address + offset, b.size, b.requested, b.state) for b in segment.blocks]
    return SegmentState(
        segment.address + offset,
        segment.size,
        segment.stream,
        segment.pool,
        segment.small,
        segment.expandable,
        blocks,
    )
