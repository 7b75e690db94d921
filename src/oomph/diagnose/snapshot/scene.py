"""The numbers of a device at a request that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.diagnose.snapshot.outside import growth_before
from oomph.memory.allocator.layout import ALLOCATED, INACTIVE, SegmentState
from oomph.memory.allocator.sizes import SMALL_BYTES, SMALL_SEGMENT_BYTES, ceil_to, segment_size
from oomph.memory.holes import Hole

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: (stream, pool, small): free blocks serve only requests of their own list.
FreeList = tuple[int, tuple[int, int], bool]


@dataclass(frozen=True)
class Scene:
    """All sizes are bytes.

    request: as the allocator rounded it. segment: what it asks of the driver for that. driver: the least that the
    driver had to give (expandable memory grows by pages behind what is free already). hole: the largest free piece of
    the request's own list; own: all free pieces there; cached: those of all lists. waiting: blocks that were freed but
    that other streams may still use. free: what the driver had left, None where not recorded. outside_growth: by how
    much what PyTorch could have had fell before. split_limit: max_split_size. giver: who has what is free, in words.
    """

    request: int
    segment: int
    driver: int
    list: FreeList
    hole: int
    own: int
    cached: int
    waiting: int
    free: int | None
    reserved: int
    allocated: int
    outside_growth: int = 0
    split_limit: int | None = None
    others: tuple[tuple[FreeList, int, int], ...] = ()  # (list, largest hole, all its holes), largest first
    private_pools: bool = False
    giver: str = "the driver"

    @property
    def available(self) -> int | None:
        """What PyTorch could have had in all."""
        return None if self.free is None else self.reserved + self.free

    @property
    def short(self) -> int | None:
        """What was missing even if all that was not in use had been one piece."""
        if self.available is None:
            return None
        return max(0, self.allocated + self.waiting + self.request - self.available)


def scene_at(
    analysis: Analysis, position: int, layout: Sequence[SegmentState], every: Sequence[Hole]
) -> Scene:
    """The scene of the out-of-memory event at `position`, with the segments and holes of that moment."""
    timeline, settings = analysis.timeline, analysis.settings
    request = int(timeline.size_bytes[position])
    small = request <= SMALL_BYTES
    mine: FreeList = (int(timeline.stream[position]), timeline.pool_at(position), small)
    lists: dict[FreeList, list[int]] = {}
    for hole in every:
        lists.setdefault((hole.stream, hole.pool, hole.small), []).append(hole.size)
    own = lists.pop(mine, [])
    allocated, waiting = bytes_in_use(layout)
    reserved = sum(segment.size for segment in layout)
    free = timeline.free_bytes.get(position)
    segment = segment_size(request, settings.large_segment_size_bytes)
    page = SMALL_SEGMENT_BYTES if small else settings.large_segment_size_bytes
    expands = settings.expandable_segments
    tail = _tail(layout, mine, request) if expands else 0
    return Scene(
        request=request,
        segment=segment,
        driver=ceil_to(max(1, request - tail), page) if expands else segment,
        list=mine,
        hole=max(own, default=0),
        own=sum(own),
        cached=reserved - allocated - waiting,
        waiting=waiting,
        free=free,
        reserved=reserved,
        allocated=allocated,
        outside_growth=0 if free is None else growth_before(analysis, position, reserved + free),
        split_limit=settings.max_split_size_bytes,
        others=tuple(
            sorted(((key, max(sizes), sum(sizes)) for key, sizes in lists.items()), key=lambda one: -one[2])
        ),
        private_pools=any(segment.pool != (0, 0) for segment in layout),
        giver="the driver" if analysis.exact is None else "the simulated card",
    )


def _tail(layout: Sequence[SegmentState], mine: FreeList, request: int) -> int:
    """The free bytes behind which expandable memory would grow for the request: at the end of the first mapped range,
    by address, that has room for it up to the next one (find_expandable_block of CUDACachingAllocator.cpp)."""
    ranges = [
        segment
        for segment in sorted(layout, key=lambda one: one.address)
        if segment.expandable and (segment.stream, segment.pool, segment.small) == mine
    ]
    for number, segment in enumerate(ranges):
        last = segment.blocks[-1] if segment.blocks else None
        tail = last.size if last is not None and last.state == INACTIVE else 0
        if number + 1 == len(ranges):
            return tail
        if ranges[number + 1].address - segment.address - segment.size + tail >= request:
            return tail
    return 0


def bytes_in_use(layout: Sequence[SegmentState]) -> tuple[int, int]:
    """(allocated, freed but perhaps still used by other streams) of a layout."""
    allocated = waiting = 0
    for segment in layout:
        for block in segment.blocks:
            if block.state == ALLOCATED:
                allocated += block.size
            elif block.state != INACTIVE:
                waiting += block.size
    return allocated, waiting
