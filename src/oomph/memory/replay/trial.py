"""The requests of a trace, asked once more of an allocator with other settings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory, ReplayError
from oomph.memory.allocator.layout import INACTIVE, PENDING_FREE
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import MIN_BLOCK_BYTES, SMALL_BYTES, round_size
from oomph.memory.replay.pressure import moments
from oomph.memory.replay.result import SegmentEvent
from oomph.memory.replay.run import ABOVE, BELOW, KINDS, plant
from oomph.memory.replay.trial_requests import ALLOC, FREE, LATER, PAIR, Requests
from oomph.memory.timeline import DEFAULT_POOL
from oomph.units import GIB

#: More than any device has: ranges of addresses for expandable segments never run out.
_DEVICE_BYTES = 1024 * GIB
#: So many blocks may wait for other streams at once; what waits beyond is not hurried when memory runs out.
_MOST_WAITING = 4096
#: Stands for a number of syncs that is never counted.
_NEVER = -1
_CUT, _EMPTY, _REQUEST = range(3)


@dataclass(frozen=True)
class Setup:
    """What a trial runs under. Sizes are bytes.

    `capacity_bytes`: what PyTorch can have in all (None: never full). `capacity_at`: another capacity at the recorded
    failures at these positions, where the device had less than at other times. `limit_bytes`: PyTorch's own cap.
    `empty_after`: positions after which the cache is emptied. `real_capacity_bytes`: what the device had when the
    trace was recorded; releases that its lack explains are left to the simulation, all others are repeated.
    `driver`: makes what gives segments their addresses (None: new ones lie above or below the last, as the trace's
    do). `cuts`: ascending positions at which peaks are taken and begin anew, from what is held there.
    """

    settings: AllocatorSettings
    capacity_bytes: int | None = None
    real_capacity_bytes: int | None = None
    capacity_at: Mapping[int, int] = field(default_factory=dict)
    limit_bytes: int | None = None
    empty_after: Sequence[int] = ()
    driver: Callable[[], Driver] | None = None
    cuts: Sequence[int] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of it. All sizes are bytes.

    `last`: position of the event at which it ended; the trace's last one when nothing ended it before. `fails_at`:
    there a request found no memory, and the job would have died; None when that did not happen. `served_at`: a
    request that failed in the trace and is served here; what came after it is unknown, so nothing is played after it.
    `survived`: recorded failures that fail here too, after which the job went on. `reserved_bytes`,
    `allocated_bytes`: at the end. `request_bytes`, `segment_bytes`: of the request that failed. `events`: what was
    asked of the driver. `problems` counts what made no sense (frees of unknown blocks, segments that overlap).
    `stretches`: the peaks (reserved, allocated) up to the first cut, from each to the next, and after the last, as far
    as the trial came; `peak_reserved_bytes` and `peak_allocated_bytes` are the most of those from the requests'
    `peak_from` on.
    """

    last: int
    fails_at: int | None
    served_at: int | None
    survived: tuple[int, ...]
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    reserved_bytes: int
    allocated_bytes: int
    retries: int
    releases: int
    request_bytes: int = 0
    segment_bytes: int = 0
    events: Sequence[SegmentEvent] = field(default=(), repr=False)
    problems: int = 0
    stretches: Sequence[tuple[int, int]] = field(default=(), repr=False)


def run_trial(requests: Requests, setup: Setup) -> Outcome:
    """Plays all requests under `setup`, up to the first that fails for good or that is served here only."""
    return _Trial(requests, setup).run()


class _Trial:
    def __init__(self, requests: Requests, setup: Setup) -> None:
        self._requests = requests
        self._setup = setup
        settings = setup.settings
        if setup.driver is not None:
            driver = setup.driver()
        else:
            driver = Driver.ascending() if requests.ascending else Driver.descending()
        # Sizes come rounded (`Requests.sizes`), so the allocator has nothing left to round.
        self.allocator = CachingAllocator(
            replace(settings, roundup_power2_divisions=()),
            setup.capacity_bytes,
            driver,
            device_total_bytes=_DEVICE_BYTES if settings.fraction is None else None,
        )
        if setup.limit_bytes is not None:
            self.allocator.set_limit(setup.limit_bytes)
        self._sizes = requests.sizes(settings)
        self._divisions, self._least = settings.roundup_power2_divisions, settings.least_divisions
        self._where: dict[int, int] = {}
        self._waiting: dict[int, tuple[int, int]] = {}
        self._fails_at: int | None = None
        self._served_at: int | None = None
        self._survived: list[int] = []
        self._error: DeviceOutOfMemory | None = None
        self._problems = 0
        self._stretches: list[tuple[int, int]] = []
        self._last = len(requests.timeline) - 1
        self._plant(BELOW if driver.rises else ABOVE)

    def _plant(self, offset: int) -> None:
        start = self._requests.start
        plant(self.allocator, start, offset)
        streams = [segment.stream for segment in start.segments] + self._requests.streams
        self._other = max(streams, default=0) + 1
        waiting = []
        for segment in start.segments:
            for block in segment.blocks:
                if block.state != INACTIVE:
                    self._where[block.address] = block.address + offset
                if block.state == PENDING_FREE:
                    self._waiting[block.address] = (block.address + offset, 0)
                    waiting.append(self.allocator.active[block.address + offset])
        if waiting:
            self.allocator.waiting[self._other] = waiting

    def run(self) -> Outcome:
        try:
            self._events()
        except ReplayError:
            self._problems += 1
        allocator = self.allocator
        events = [(int(KINDS[kind]), size) for kind, _, size, _ in allocator.segment_events]
        self._cut()
        skipped = bisect_left(self._cuts(), self._requests.peak_from + 1)
        counted = self._stretches[skipped:] or self._stretches[-1:]
        given_back = (arena.SEGMENT_FREE, arena.SEGMENT_UNMAP)
        return Outcome(
            last=self._last,
            fails_at=self._fails_at,
            served_at=self._served_at,
            survived=tuple(self._survived),
            peak_reserved_bytes=max(reserved for reserved, _ in counted),
            peak_allocated_bytes=max(allocated for _, allocated in counted),
            reserved_bytes=allocator.reserved_bytes,
            allocated_bytes=allocator.allocated_bytes,
            retries=allocator.num_alloc_retries,
            releases=sum(kind in given_back for kind, *_ in allocator.segment_events),
            request_bytes=0 if self._error is None else self._error.rounded_bytes,
            segment_bytes=0 if self._error is None else self._error.segment_bytes,
            events=events,
            problems=self._problems,
            stretches=self._stretches,
        )

    def _cuts(self) -> list[int]:
        """All positions at which peaks are taken, those of the requests included."""
        begin = self._requests.peak_from
        return sorted({*self._setup.cuts, *([begin] if begin else [])})

    def _cut(self) -> None:
        self._stretches.append((self.allocator.peak_reserved_bytes, self.allocator.peak_allocated_bytes))
        self.allocator.reset_peaks()

    def _events(self) -> None:
        """Stretches of requests and frees, with what happens between them."""
        requests, setup = self._requests, self._setup
        special = [(position + 1, _EMPTY) for position in set(setup.empty_after)]
        special += [(at, _EMPTY) for at in moments(requests.releases, setup.real_capacity_bytes)]
        special += [(position, _REQUEST) for position in requests.failures]
        special += [(position, _CUT) for position in self._cuts()]
        first = 0
        for position, what in sorted(special):
            last = int(requests.places.searchsorted(position))
            if not self._stretch(first, last):
                return
            first = last
            if what == _CUT:
                self._cut()
            elif what == _EMPTY:
                self.allocator.empty_cache()
            elif not self._ask_again(position):
                return
        self._stretch(first, len(requests.codes))

    def _stretch(self, first: int, last: int) -> bool:
        """The steps from `first` to before `last`; False when a request failed."""
        requests, where = self._requests, self._where
        malloc, free, glance = self.allocator.malloc, self.allocator.free, self._glance
        fuses = requests.pools is None and not self.allocator.gc
        part = slice(first, last)
        columns = zip(
            requests.codes[part],
            requests.addresses[part],
            self._sizes[part],
            requests.streams[part],
            repeat(DEFAULT_POOL) if requests.pools is None else requests.pools[part],
            requests.positions[part],
            strict=False,
        )
        position = -1
        try:
            for code, address, size, stream, pool, position in columns:  # noqa: B007 - a failure asks where
                if code == PAIR:
                    if not (fuses and glance(size, stream)):
                        free(malloc(size, stream, pool))
                elif code == ALLOC:
                    where[address] = malloc(size, stream, pool)
                elif code == FREE:
                    block = where.pop(address, None)
                    if block is None:
                        self._problems += 1
                    else:
                        free(block)
                elif code == LATER:
                    self._free_later(address)
                else:
                    self._done(address)
        except DeviceOutOfMemory as error:
            self._fail(position, error)
            return False
        return True

    def _glance(self, size: int, stream: int) -> bool:
        """Whether the cache serves a request whose block comes back at once.

        Such a pair changes nothing: the front of a free block is cut off, and merges with the rest again, whose other
        neighbours were in use before and still are. All that remains of it is the peak of allocated bytes. (With
        garbage collection it makes the block younger; then nothing is abbreviated.)
        """
        allocator = self.allocator
        part = allocator.small if size <= SMALL_BYTES else allocator.large
        free = part.free.get(stream)
        if free is None:
            return False
        sizes = free.sizes
        place = bisect_left(sizes, size)
        if place >= len(sizes):
            return False
        if free.blocks[place].range is not None:
            place = allocator._prefer(free, place, allocator.expandable)  # noqa: SLF001 - as malloc does
            if place < 0:
                return False
        found = sizes[place]
        most = allocator.max_split if size < allocator.max_split else size + allocator.non_split_rounding
        if found >= most:
            return False
        if size <= SMALL_BYTES or allocator.expandable:
            whole = found - size < MIN_BLOCK_BYTES
        else:
            whole = size >= allocator.max_split or found - size <= SMALL_BYTES
        counter = allocator.counts.all.allocated_bytes
        now = counter.current + (found if whole else size)
        if now > counter.peak:
            counter.peak = now
        return True

    def _ask_again(self, position: int) -> bool:
        """A request that failed in the trace; whether there is anything to play after it."""
        timeline, allocator = self._requests.timeline, self.allocator
        usual = allocator.capacity
        allocator.capacity = self._setup.capacity_at.get(position, usual)
        try:
            size, stream = int(timeline.size_bytes[position]), int(timeline.stream[position])
            rounded = round_size(size, self._divisions, self._least)
            allocator.malloc(rounded, stream, timeline.pool_at(position))
        except DeviceOutOfMemory as error:
            allocator.capacity = usual
            if self._requests.survived(position):
                self._survived.append(position)
                return True
            self._fail(position, error)
            return False
        self._served_at = self._last = position
        return False

    def _fail(self, position: int, error: DeviceOutOfMemory) -> None:
        self._fails_at = self._last = position
        self._error = error

    def _free_later(self, address: int) -> None:
        """A free that waits for work of other streams. When memory runs out, the allocator waits for that work."""
        block = self._where.get(address)
        if block is None or address in self._waiting:
            self._problems += 1
            return
        syncs = _NEVER
        if len(self._waiting) < _MOST_WAITING:
            self.allocator.record_stream(block, self._other)
            self.allocator.free(block)
            syncs = self.allocator.counts.syncs
        else:
            self.allocator.free_requested(block)
        self._waiting[address] = (block, syncs)

    def _done(self, address: int) -> None:
        """The work is done; the allocator may have waited for it already."""
        block, syncs = self._waiting.pop(address, (0, 0))
        self._where.pop(address, None)
        if not block:
            self._problems += 1
        elif syncs in (_NEVER, self.allocator.counts.syncs):
            self.allocator.complete(block)


def same_events(requests: Requests, outcome: Outcome) -> bool:
    """Whether the trial asked of the driver exactly what the trace shows, in order, up to where the trial ended."""
    return not outcome.problems and list(outcome.events) == requests.recorded(outcome.last)
