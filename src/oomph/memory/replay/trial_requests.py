"""What a trace asked of the allocator, prepared once to be asked again under many settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oomph.memory.allocator.layout import ALLOCATED, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import round_size
from oomph.memory.replay.pressure import Release, releases
from oomph.memory.replay.result import SegmentEvent
from oomph.memory.replay.run import PoolMap, ascending, completes_at_once
from oomph.memory.replay.start import Start
from oomph.memory.timeline import DEFAULT_POOL, Kind, Timeline

#: What is done in a step. PAIR is a request whose block is given back by the next event; FREE ends at once, LATER
#: waits for its DONE.
PAIR, ALLOC, FREE, LATER, DONE = range(5)
_NOTHING = -1
_LOW_ADDRESS = 1 << 44
_SEGMENT_KINDS = (
    Kind.SEGMENT_ALLOC,
    Kind.SEGMENT_FREE,
    Kind.SEGMENT_MAP,
    Kind.SEGMENT_UNMAP,
    Kind.OOM,
)


class Requests:
    """The requests and frees of one device's trace, in order, as lists of steps; what the driver did is left out.

    `codes`, `addresses` (the recorded address names the block), `streams`, `positions` (of the event) have one entry
    per step; `pools` too, or it is None where everything is in the default pool. Sizes depend on rounding: `sizes`.
    `final` are the segments at the end: they tell private pools where events do not name any. `emptied` and `retried`
    are positions of releases that are known to be the user's own (empty_cache) or PyTorch's, for a request.
    `peak_from`: the position from which a trial's peaks count; what is held right before it counts too.
    """

    def __init__(
        self,
        timeline: Timeline,
        start: Start,
        final: Sequence[SegmentState] = (),
        *,
        emptied: Collection[int] = (),
        retried: Collection[int] = (),
        peak_from: int = 0,
    ) -> None:
        self.timeline = timeline
        self.start = start
        self.peak_from = peak_from
        self._emptied = emptied
        self._retried = retried
        self.ascending = ascending(timeline)
        code = _codes(timeline, start.completions)
        kept = np.flatnonzero(code != _NOTHING)
        self.places: NDArray[np.intp] = kept
        self.codes: list[int] = code[kept].tolist()
        self.addresses: list[int] = timeline.address[kept].tolist()
        self.streams: list[int] = timeline.stream[kept].tolist()
        self.positions: list[int] = kept.tolist()
        self._asked, self._which = np.unique(timeline.size_bytes[kept], return_inverse=True)
        self._sizes: dict[tuple[tuple[int, ...], int], list[int]] = {}
        pools = PoolMap.needed(timeline, [*start.segments, *final])
        self.pools: list[tuple[int, int]] | None = None
        if pools is not None:
            steps = zip(self.codes, self.positions, self.addresses, strict=True)
            self.pools = [
                pools.of(position, address) if code <= ALLOC else DEFAULT_POOL
                for code, position, address in steps
            ]

    def sizes(self, settings: AllocatorSettings) -> list[int]:
        """For each step its size in bytes, rounded as the allocator does under `settings`; 0 stays 0 (PyTorch never
        asks its allocator for nothing). A rounded size stays what it is when it is rounded to 512 bytes again."""
        key = (settings.roundup_power2_divisions, settings.least_divisions)
        known = self._sizes.get(key)
        if known is None:
            rounded = [round_size(size, *key) if size > 0 else 0 for size in self._asked.tolist()]
            known = np.array(rounded, np.int64)[self._which].tolist()
            self._sizes[key] = known
        return known

    @cached_property
    def failures(self) -> list[int]:
        """Positions of the recorded requests that failed."""
        found: list[int] = self.timeline.positions(Kind.OOM).tolist()
        return found

    @cached_property
    def like_windows(self) -> bool:
        """Whether addresses look like those of Windows or WSL: each new segment above the last, all of them low. On
        Linux, segments lie right below 2**47 (seen in real snapshots)."""
        bases = self.timeline.address[self.timeline.positions(Kind.SEGMENT_ALLOC)]
        return self.ascending and int(bases.max(initial=0)) < _LOW_ADDRESS

    @cached_property
    def last_request(self) -> int:
        """Position of the last request that was served; -1 when none was."""
        served = self.timeline.positions(Kind.ALLOC)
        return int(served[-1]) if len(served) else -1

    def survived(self, position: int) -> bool:
        """Whether the job went on after the failure there: it asked for memory again."""
        return position < self.last_request

    @cached_property
    def releases(self) -> list[Release]:
        """When the trace shows that cached memory was given back; what the user emptied was for no request."""
        found = releases(self.timeline, self.start.reserved_bytes)
        return [replace(each, needed_bytes=0) if each.position in self._emptied else each for each in found]

    @property
    def sure(self) -> bool:
        """Whether every release right before a request is known to have been PyTorch's, for that request."""
        return all(each.position in self._retried for each in self.releases if each.needed_bytes)

    @cached_property
    def reserved_bytes(self) -> NDArray[np.int64]:
        """What was reserved after each event, as recorded."""
        reserved: NDArray[np.int64] = self.start.reserved_bytes + np.cumsum(
            self.timeline.reserved_change_bytes
        )
        return reserved

    @cached_property
    def peak_reserved_bytes(self) -> int:
        """The most that was reserved, as recorded."""
        return max(self.start.reserved_bytes, int(self.reserved_bytes.max(initial=0)))

    def requested_bytes_at(self, position: int) -> int:
        """What was asked for and in use after the event there, without any rounding: no settings need less. Blocks
        that wait for other streams are not in use: before a request fails, PyTorch waits for them and takes them."""
        begun = sum(
            block.requested
            for segment in self.start.segments
            for block in segment.blocks
            if block.state == ALLOCATED
        )
        events = self.timeline
        sign = np.zeros(len(Kind), np.int64)
        sign[Kind.ALLOC] = 1
        asked = bool(np.any(events.kind == Kind.FREE_REQUESTED))  # a recording may leave these out
        sign[Kind.FREE_REQUESTED if asked else Kind.FREE_COMPLETED] = -1
        upto = slice(0, position + 1)
        return begun + int(np.sum(sign[events.kind[upto]] * events.size_bytes[upto]))

    def recorded(self, last: int) -> list[SegmentEvent]:
        """The segment events (OOM included) up to and with position `last`."""
        positions = self.timeline.positions(*_SEGMENT_KINDS)
        positions = positions[positions <= last]
        kinds, sizes = self.timeline.kind[positions], self.timeline.size_bytes[positions]
        return list(zip(kinds.tolist(), sizes.tolist(), strict=True))


def _codes(events: Timeline, completions: bool) -> NDArray[np.int8]:
    """What to do at each event; `_NOTHING` for the rest and for what the step before has done already."""
    kind = events.kind
    at_once = completes_at_once(events) if completions else np.ones(len(events), np.bool_)
    code = np.full(len(events), _NOTHING, np.int8)
    asked, done = kind == Kind.FREE_REQUESTED, kind == Kind.FREE_COMPLETED
    code[kind == Kind.ALLOC] = ALLOC
    code[asked] = np.where(at_once[asked], FREE, LATER)
    if completions:
        code[done] = DONE
        code[1:][asked[:-1] & at_once[:-1]] = _NOTHING
    pair = np.zeros(len(events), np.bool_)
    pair[:-1] = (
        (code[:-1] == ALLOC)
        & (code[1:] == FREE)
        & (events.address[1:] == events.address[:-1])
        & (events.size_bytes[:-1] > 0)
    )
    code[pair] = PAIR
    code[1:][pair[:-1]] = _NOTHING
    return code
