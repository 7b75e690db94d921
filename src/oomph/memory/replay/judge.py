"""Exact and blind replays, compared with what was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.layout import INACTIVE, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay.pressure import capacities, moments, releases
from oomph.memory.replay.result import Replay, SegmentEvent
from oomph.memory.replay.run import ABOVE, BELOW, KINDS, MOST_MISSES, PoolMap, Run, ascending
from oomph.memory.replay.start import Start, start_state
from oomph.memory.timeline import Kind, Timeline

_SEGMENT_KINDS = (
    Kind.SEGMENT_ALLOC,
    Kind.SEGMENT_FREE,
    Kind.SEGMENT_MAP,
    Kind.SEGMENT_UNMAP,
    Kind.OOM,
)


def exact(
    final: Sequence[SegmentState],
    timeline: Timeline,
    settings: AllocatorSettings,
    *,
    capacity_bytes: int | None = None,
) -> Replay:
    """Replays with the real address of each new segment; everything else must follow.

    The moments of releasing come from the trace; with `capacity_bytes`, only those at which the device was not full.
    A device that was full may have given back a part of what was cached only (max_split_size_mb), which no moment
    tells: where the moments do not give the recorded events, the capacities that the trace allows are tried.
    """
    start = start_state(final, timeline, settings)

    def once(capacity: int | None) -> Replay:
        return _replay(start, final, timeline, settings, Driver.given(), 0, capacity)

    result = once(capacity_bytes)
    if result.sequence_right or capacity_bytes is not None:
        return result
    others = map(once, capacities(timeline, start.reserved_bytes))
    return next((other for other in others if other.sequence_right), result)


def blind(
    final: Sequence[SegmentState],
    timeline: Timeline,
    settings: AllocatorSettings,
    *,
    capacity_bytes: int | None = None,
) -> Replay:
    """Replays without real addresses: new segments lie below the old ones, or above where the trace's do (Windows).

    Where the trace shows pressure, a capacity is tried first: it replaces what the trace says about when a full device
    made PyTorch release memory. If no capacity that the trace allows gives the recorded sequence, all moments are
    taken from it. `capacity_bytes` says which capacity to use, and then nothing else is tried.
    """
    start = start_state(final, timeline, settings)
    candidates = capacities(timeline, start.reserved_bytes) if capacity_bytes is None else [capacity_bytes]
    for capacity in candidates:
        result = _blindly(start, final, timeline, settings, capacity)
        if result.sequence_right or capacity_bytes is not None:
            return result
    return _blindly(start, final, timeline, settings, None)


def _blindly(
    start: Start,
    final: Sequence[SegmentState],
    timeline: Timeline,
    settings: AllocatorSettings,
    capacity: int | None,
) -> Replay:
    upwards = ascending(timeline)
    driver = Driver.ascending() if upwards else Driver.descending()
    offset = BELOW if upwards else ABOVE
    return _replay(start, final, timeline, settings, driver, offset, capacity)


def _replay(
    start: Start,
    final: Sequence[SegmentState],
    timeline: Timeline,
    settings: AllocatorSettings,
    driver: Driver,
    offset: int,
    capacity: int | None,
) -> Replay:
    pools = PoolMap.needed(timeline, [*start.segments, *final])
    run = Run(
        start,
        timeline,
        settings,
        driver=driver,
        offset=offset,
        moments=moments(releases(timeline, start.reserved_bytes), capacity),
        capacity_bytes=capacity,
        pools=pools,
    )
    run.run()
    allocator = run.allocator
    result = Replay(
        events_total=len(timeline),
        capacity_bytes=capacity,
        addresses_right=run.addresses_right,
        addresses_total=run.addresses_total,
        expected_events=_recorded(timeline),
        events=[(KINDS[kind], size) for kind, _, size, _ in allocator.segment_events],
        expected_peak_reserved_bytes=_peak(start.reserved_bytes, timeline.reserved_change_bytes),
        peak_reserved_bytes=allocator.peak_reserved_bytes,
        expected_peak_requested_bytes=_peak(
            _requested(start), _requested_change(timeline, start.completions)
        ),
        peak_requested_bytes=allocator.peak_requested_bytes,
        peak_allocated_bytes=allocator.peak_allocated_bytes,
        retries=allocator.num_alloc_retries,
        ooms=run.ooms,
        problems=run.problems + start.lost,
        unsure=start.unsure,
        misses=run.misses,
    )
    _compare_events(result)
    if offset == 0:
        _compare_layout(result, final, allocator.layout())
    return result


def _recorded(timeline: Timeline) -> list[SegmentEvent]:
    positions = timeline.positions(*_SEGMENT_KINDS)
    return list(zip(timeline.kind[positions].tolist(), timeline.size_bytes[positions].tolist(), strict=True))


def _peak(start_bytes: int, change: np.typing.NDArray[np.int64]) -> int:
    return start_bytes + max(0, int(np.cumsum(change).max(initial=0)))


def _requested(start: Start) -> int:
    return sum(block.requested for segment in start.segments for block in segment.blocks)


def _requested_change(timeline: Timeline, completions: bool) -> np.typing.NDArray[np.int64]:
    """Requested bytes count until the free is complete."""
    ends = Kind.FREE_COMPLETED if completions else Kind.FREE_REQUESTED
    sign = np.zeros(len(Kind), np.int64)
    sign[Kind.ALLOC] = 1
    sign[ends] = -1
    return sign[timeline.kind] * timeline.size_bytes


def _compare_events(result: Replay) -> None:
    if result.sequence_right or len(result.misses) >= MOST_MISSES:
        return
    pairs = zip(result.expected_events, result.events, strict=False)
    place = next((i for i, (recorded, simulated) in enumerate(pairs) if recorded != simulated), None)
    if place is None:
        place = min(len(result.expected_events), len(result.events))
    recorded, simulated = _named(result.expected_events, place), _named(result.events, place)
    result.misses.append(f"segment event {place}: {simulated}, recorded {recorded}")


def _named(events: list[SegmentEvent], place: int) -> str:
    if place >= len(events):
        return "none"
    kind, size = events[place]
    return f"{Kind(kind).name.lower()} of {size} bytes"


def _compare_layout(result: Replay, final: Sequence[SegmentState], simulated: list[SegmentState]) -> None:
    recorded = sorted(final, key=lambda segment: segment.address)
    result.layout_right = len(recorded) == len(simulated)
    if not result.layout_right:
        _note(result, f"{len(simulated)} segments at the end, recorded {len(recorded)}")
        return
    for ours, theirs in zip(simulated, recorded, strict=True):
        if ours.key() != theirs.key() or _blocks(ours) != _blocks(theirs):
            result.layout_right = False
            _note(result, f"the segment at {theirs.address:#x} differs at the end")
            return


def _note(result: Replay, text: str) -> None:
    if len(result.misses) < MOST_MISSES:
        result.misses.append(text)


def _blocks(segment: SegmentState) -> list[tuple[int, int, int, str]]:
    return [
        block.key() if block.state != INACTIVE else (block.address, block.size, 0, INACTIVE)
        for block in segment.blocks
    ]
