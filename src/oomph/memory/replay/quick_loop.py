"""The loop that plays steps: PyTorch's caching allocator, as far as peaks need it.

Best fit with the lowest address among equals, splits, merges, and what is given back before a request fails, as in
memory/allocator (whose sources they have). Not kept are counters, the record of segments, and blocks as objects: a free
block is one number (quick_steps.py) in the sorted list of its pool and stream, found by where it begins and ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from oomph.memory.allocator.driver import LARGE_SEGMENT, SMALL_SEGMENT, Driver
from oomph.memory.allocator.sizes import SMALL_SEGMENT_BYTES
from oomph.memory.replay.quick_steps import ADDRESS_BITS, ENDLESS, UNIT_BYTES, Request, Steps
from oomph.units import GIB

_ADDRESS = (1 << ADDRESS_BITS) - 1
_ENDLESS = ENDLESS << ADDRESS_BITS
_SMALL_PAGE = SMALL_SEGMENT_BYTES // UNIT_BYTES
#: Ranges of addresses: one for each pool and stream, so large that what is left of one is always endless, and so far
#: apart that they never meet.
_WHOLE_RANGE, _RANGE = 2 * ENDLESS, 4 * ENDLESS
#: More than any device has; a range of memory/replay/trial.py holds an eighth more, and then another begins.
_MOST_MAPPED = 1024 * GIB // UNIT_BYTES

#: The peaks (reserved, allocated) in bytes of each stretch, as far as a play came, and the position of the request for
#: which there was no memory.
Played: TypeAlias = "tuple[list[tuple[int, int]], int | None]"


class Loop:
    """One play. `capacity_bytes`: what PyTorch can have (None: without end). `driver` says where segments start; with
    expandable segments there are none, nor a capacity."""

    def __init__(self, steps: Steps, capacity_bytes: int | None, driver: Driver | None) -> None:
        self._steps = steps
        self._room = None if capacity_bytes is None else capacity_bytes // UNIT_BYTES
        self._driver = Driver.descending() if driver is None else driver
        self._free: list[list[int]] = [[] for _ in steps.homes]
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._segments: dict[int, int] = {}
        self._small = [small for _, small in steps.homes]
        self._mapped = [0] * len(steps.homes)
        self._addresses = [0] * len(steps.sizes)
        self._sizes = steps.sizes.copy()
        self._allocated = self._reserved = 0
        self._peak_allocated = self._peak_reserved = 0
        if steps.expandable:
            for home, free in enumerate(self._free):
                self._keep(free, home * _RANGE, _WHOLE_RANGE)

    def play(self, cuts: Sequence[int] = ()) -> Played:
        """Plays all steps, once; peaks are taken up to the first of the ascending positions `cuts`, from each to the
        next, and after the last."""
        positions = self._steps.positions
        stretches: list[tuple[int, int]] = []
        first = 0
        fails_at: int | None = None
        for cut in (*cuts, None):
            last = len(positions)
            if cut is not None:
                last = bisect_left(positions, cut + (cut in self._steps.paired), first)
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved
            failed = self._stretch(first, last)
            stretches.append((self._peak_reserved * UNIT_BYTES, self._peak_allocated * UNIT_BYTES))
            if failed is not None:
                fails_at = positions[failed]
                break
            first = last
        return stretches, fails_at

    @property
    def full(self) -> bool:
        """Whether a range of addresses took in more than it has."""
        return max(self._mapped, default=0) > _MOST_MAPPED

    def _stretch(self, first: int, last: int) -> int | None:
        """The steps from `first` to before `last`; which one found no memory. All in one place: calls would take most
        of the time."""
        pools, begins, ends, places = self._free, self._begins, self._ends, self._steps.places
        addresses, sizes = self._addresses, self._sizes
        allocated = peak = self._allocated
        failed = None
        part = slice(first, last)
        for block, request in zip(self._steps.blocks[part], self._steps.requests[part], strict=True):
            if request is None:
                begin = addresses[block]
                size = sizes[block]
                end = begin + size
                allocated -= size
                free = pools[places[block]]
                if number := ends.pop(begin, 0):
                    del free[bisect_left(free, number)]
                    begin = number & _ADDRESS
                if number := begins.pop(end, 0):
                    del free[bisect_left(free, number)]
                    end += number >> ADDRESS_BITS
                number = (end - begin) << ADDRESS_BITS | begin
                begins[begin] = ends[end] = number
                free.insert(bisect_left(free, number), number)
                continue
            home, least, whole, moved, size, _ = request
            free = pools[home]
            place = bisect_left(free, least)
            if place == len(free):
                if not self._grow(request):
                    failed = self._steps.blocks.index(block)
                    break
                place = bisect_left(free, least)
            number = free.pop(place)
            begin = addresses[block] = number & _ADDRESS
            del begins[begin]
            end = begin + (number >> ADDRESS_BITS)
            if number < whole:
                del ends[end]
                size = sizes[block] = number >> ADDRESS_BITS
            else:
                if number >= _ENDLESS:
                    self._map(home, begin + size)
                number -= moved
                begins[begin + size] = ends[end] = number
                free.insert(bisect_left(free, number, 0, place), number)
            allocated += size
            if allocated > peak:
                peak = allocated
        self._allocated, self._peak_allocated = allocated, peak
        return failed

    def _grow(self, request: Request) -> bool:
        """A new segment as a free block; False when there is no room for one, not even when all that is free was given
        back."""
        home, *_, segment = request
        if self._room is not None and self._reserved + segment > self._room:
            self._release()
            if self._reserved + segment > self._room:
                return False
        small = self._small[home]
        address = self._driver.reserve(segment * UNIT_BYTES, SMALL_SEGMENT if small else LARGE_SEGMENT)
        # Twice as far apart as they are: so blocks of two segments never touch, and keep their order.
        begin = 2 * address // UNIT_BYTES
        self._segments[begin] = segment
        self._reserve(segment)
        self._keep(self._free[home], begin, segment)
        return True

    def _release(self) -> None:
        """Gives back every segment of which all is free."""
        for free in self._free:
            kept = []
            for number in free:
                begin, size = number & _ADDRESS, number >> ADDRESS_BITS
                if self._segments.get(begin) == size:
                    self._reserved -= size
                    del self._segments[begin], self._begins[begin], self._ends[begin + size]
                else:
                    kept.append(number)
            free[:] = kept

    def _map(self, home: int, end: int) -> None:
        """A range of addresses reaches up to `end`, in whole pages."""
        page = _SMALL_PAGE if self._small[home] else self._steps.page
        mapped = -(-(end - home * _RANGE) // page) * page
        if mapped > self._mapped[home]:
            self._reserve(mapped - self._mapped[home])
            self._mapped[home] = mapped

    def _reserve(self, size: int) -> None:
        self._reserved += size
        self._peak_reserved = max(self._peak_reserved, self._reserved)

    def _keep(self, free: list[int], begin: int, size: int) -> None:
        """One more free block."""
        number = size << ADDRESS_BITS | begin
        self._begins[begin] = self._ends[begin + size] = number
        free.insert(bisect_left(free, number), number)
