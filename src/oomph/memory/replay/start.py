"""The state of the allocator before the first recorded event.

A snapshot holds the segments at its end and the events that led there, often only the last of many: PyTorch keeps a
ring of events, and recording may have started late. So the start is the end with the trace undone. Checked on real
traces: started this way, a simulation gives every address of them (docs/snapshots.md).

What was allocated at the start is known exactly, except for one thing: a block that was freed within the trace shows
only the size that was requested. In the large pool a block may carry up to 1 MiB more, the rest of a free block that
was too small to be split off. That rest is found by where the next block behind it begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oomph.memory.allocator.layout import (
    ALLOCATED,
    INACTIVE,
    PENDING_FREE,
    BlockState,
    Reservation,
    SegmentState,
)
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import SMALL_BYTES, round_size
from oomph.memory.replay.ground import Ground, ground_at_start, reservations
from oomph.memory.timeline import Kind, Timeline

_BLOCK_KINDS = (Kind.ALLOC, Kind.FREE_REQUESTED, Kind.FREE_COMPLETED)


@dataclass
class Start:
    """Segments with their blocks before the first event; `reservations` are the addresses at which expandable ones
    may grow.

    `completions`: whether ends of frees were recorded (a recording may leave them out; a free then ends with its
    request). `lost` counts blocks that the trace frees although they lie in no segment of the start, or reach into
    another block: the trace and the segments do not belong together there. `unsure` counts blocks whose end nothing
    shows: a few hundred KiB behind them may be theirs, or free.
    """

    segments: list[SegmentState] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    completions: bool = True
    lost: int = 0
    unsure: int = 0

    @property
    def reserved_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)


def start_state(
    final: Sequence[SegmentState], timeline: Timeline, settings: AllocatorSettings | None = None
) -> Start:
    """Undoes `timeline` from the segments at its end. `settings` say how requests were rounded."""
    finder = _Finder(final, timeline, settings or AllocatorSettings())
    return finder.start()


@dataclass
class _Live:
    """A block that was in use at the start. `size` is 0 while it is not known."""

    address: int
    size: int
    requested: int
    state: str
    freed_at: int


class _Finder:
    def __init__(
        self, final: Sequence[SegmentState], timeline: Timeline, settings: AllocatorSettings
    ) -> None:
        self._final = final
        self._timeline = timeline
        self._settings = settings
        self._first_allocs()

    def start(self) -> Start:
        live = self._live()
        page = self._settings.large_segment_size_bytes
        ground = ground_at_start(self._final, self._timeline, page)
        result = Start(
            reservations=reservations(self._final, self._timeline, ground, page),
            completions=self._completions_recorded(),
        )
        at = 0
        order = sorted(live)
        for piece in ground:
            while at < len(order) and order[at] < piece.address:
                result.lost += 1
                at += 1
            first = at
            while at < len(order) and order[at] < piece.end:
                at += 1
            members = [live[address] for address in order[first:at]]
            result.segments.append(self._segment(piece, members, result))
        result.lost += len(order) - at
        return result

    def _live(self) -> dict[int, _Live]:
        """Blocks in use at the start: those whose first recorded event is a free, and those that are in use at the
        end without any event."""
        events = self._timeline
        addresses, where = events.first_of_each_address(*_BLOCK_KINDS)
        live: dict[int, _Live] = {}
        completed = self._completions(addresses, where)
        for address, kind, size in zip(
            addresses.tolist(),
            events.kind[where].tolist(),
            events.size_bytes[where].tolist(),
            strict=True,
        ):
            if kind == Kind.ALLOC:
                continue
            state = ALLOCATED if kind == Kind.FREE_REQUESTED else PENDING_FREE
            live[address] = _Live(address, 0, size, state, completed.get(address, len(events)))
        seen = set(addresses.tolist())
        for segment in self._final:
            for block in segment.blocks:
                if block.state != INACTIVE and block.address not in seen:
                    live[block.address] = _Live(
                        block.address, block.size, block.requested, block.state, len(events)
                    )
        self._exact_at_end(live)
        return live

    def _completions(self, addresses: NDArray[np.int64], first: NDArray[np.intp]) -> dict[int, int]:
        """Where the first free_completed of each address stands."""
        events = self._timeline
        if not self._completions_recorded():
            return dict(zip(addresses.tolist(), first.tolist(), strict=True))
        done, where = events.first_of_each_address(Kind.FREE_COMPLETED)
        return dict(zip(done.tolist(), where.tolist(), strict=True))

    def _completions_recorded(self) -> bool:
        """A recording without any completion left them out, unless a block still waits for one at the end."""
        return bool(np.any(self._timeline.kind == Kind.FREE_COMPLETED)) or any(
            block.state == PENDING_FREE for segment in self._final for block in segment.blocks
        )

    def _exact_at_end(self, live: dict[int, _Live]) -> None:
        """A block that was asked back and is still pending at the end has its exact size there."""
        for segment in self._final:
            for block in segment.blocks:
                if block.state == PENDING_FREE and block.address in live:
                    at = bisect_right(self._alloc_addresses, block.address) - 1
                    if at < 0 or self._alloc_addresses[at] != block.address:
                        live[block.address].size = block.size

    def _first_allocs(self) -> None:
        """The addresses that the trace allocates, sorted, with where it first does."""
        addresses, first = self._timeline.first_of_each_address(Kind.ALLOC)
        self._alloc_addresses: list[int] = addresses.tolist()
        self._alloc_first: list[int] = first.tolist()

    def _segment(self, piece: Ground, members: list[_Live], result: Start) -> SegmentState:
        segment = SegmentState(
            piece.address, piece.size, piece.stream, piece.pool, piece.small, piece.expandable, []
        )
        here = piece.address
        for index, block in enumerate(members):
            if block.address > here:
                segment.blocks.append(BlockState(here, block.address - here, 0, INACTIVE))
            following = members[index + 1].address if index + 1 < len(members) else piece.end
            size = block.size or self._size(block, following, piece, result)
            if (
                size > following - block.address
            ):  # two blocks in one place: the next one's beginning is certain
                size = following - block.address
                result.lost += 1
            segment.blocks.append(BlockState(block.address, size, block.requested, block.state))
            here = block.address + size
        if here < piece.end:
            segment.blocks.append(BlockState(here, piece.end - here, 0, INACTIVE))
        return segment

    def _size(self, block: _Live, following: int, piece: Ground, result: Start) -> int:
        """The block's size: the rounded request, and in the large pool what could not be split off behind it."""
        settings = self._settings
        rounded = round_size(block.requested, settings.roundup_power2_divisions, settings.least_divisions)
        if piece.small or piece.expandable:
            return rounded
        most = SMALL_BYTES
        if settings.max_split_size_bytes is not None and rounded >= settings.max_split_size_bytes:
            most = settings.max_non_split_rounding_bytes
        end = block.address + rounded
        boundary = min(following, self._boundary(end, end + most, block.freed_at))
        if boundary <= end + most:
            return max(boundary, end) - block.address
        result.unsure += 1
        return rounded

    def _boundary(self, least: int, most: int, before: int) -> int:
        """The lowest address from `least` to `most` at which the trace allocates before position `before`: a block
        begins there while ours is still in use. `most` + 1 when there is none.

        No whole block fits between our block's end and that address, since blocks of the large pool are larger than
        1 MiB, allocated or free."""
        at = bisect_right(self._alloc_addresses, least - 1)
        while at < len(self._alloc_addresses) and self._alloc_addresses[at] <= most:
            if self._alloc_first[at] < before:
                return self._alloc_addresses[at]
            at += 1
        return most + 1
