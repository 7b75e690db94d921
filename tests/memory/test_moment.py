"""The layout at a moment within a trace, and the holes in it."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.evidence.snapshot import allocator_settings
from oomph.memory.allocator.layout import SegmentState
from oomph.memory.holes import Hole, holes
from oomph.memory.moment import layout_at, window
from oomph.memory.timeline import Kind
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, read, segment, snapshot

SEGMENT = BASE + 0x1000_0000


def content(segments: list[Any], events: list[Any]) -> Any:
    return read(snapshot(segments, [events], allocator_settings=SETTINGS))


def segment_of(address: int, *parts: tuple[int, str], **more: Any) -> dict[str, Any]:
    result, here = [], address
    for size, state in parts:
        result.append(block(here, size, state))
        here += size
    return segment(address, result, segment_type="large", **more)


EVENTS = [
    event("segment_alloc", BASE, 20 * MIB),
    event("alloc", BASE, 4 * MIB),
    event("alloc", BASE + 4 * MIB, 2 * MIB),
    event("free_requested", BASE, 4 * MIB),
    event("free_completed", BASE, 4 * MIB),
    event("segment_alloc", SEGMENT, 20 * MIB),
    event("alloc", SEGMENT, 8 * MIB),
]
FINAL = [
    segment_of(BASE, (4 * MIB, "inactive"), (2 * MIB, "active_allocated"), (14 * MIB, "inactive")),
    segment_of(SEGMENT, (8 * MIB, "active_allocated"), (12 * MIB, "inactive")),
]


def layout(position: int) -> list[SegmentState]:
    found = content(FINAL, EVENTS)
    device = found.devices[0]
    return layout_at(device.segments, device.timeline, position, allocator_settings(found))


def sizes(found: list[SegmentState]) -> list[list[tuple[int, bool]]]:
    """Of each segment its blocks: MiB, and whether each is in use."""
    return [[(one.size // MIB, one.state != "inactive") for one in segment.blocks] for segment in found]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (-1, []),
        (0, [[(20, False)]]),
        (1, [[(4, True), (16, False)]]),
        (2, [[(4, True), (2, True), (14, False)]]),
        (4, [[(4, False), (2, True), (14, False)]]),
        (5, [[(4, False), (2, True), (14, False)], [(20, False)]]),
        (6, [[(4, False), (2, True), (14, False)], [(8, True), (12, False)]]),
        (60, [[(4, False), (2, True), (14, False)], [(8, True), (12, False)]]),
    ],
)
def test_the_layout_after_each_event(position: int, expected: list[list[tuple[int, bool]]]):
    assert sizes(layout(position)) == expected


def test_holes_know_what_bounds_them():
    first, second, third = holes(layout(6))
    assert (first.address, first.size, first.before, first.after) == (BASE, 4 * MIB, None, BASE + 4 * MIB)
    assert (second.address, second.size) == (BASE + 6 * MIB, 14 * MIB)
    assert (second.before, second.after) == (BASE + 4 * MIB, None)
    assert (third.address, third.segment_address) == (SEGMENT + 8 * MIB, SEGMENT)
    assert not any(hole.is_whole_segment for hole in (first, second, third))


def test_a_segment_without_blocks_is_one_hole():
    [whole] = holes(layout(0))
    assert whole.is_whole_segment
    assert (whole.size, whole.segment_size) == (20 * MIB, 20 * MIB)


def test_free_blocks_side_by_side_are_one_hole():
    found = content([segment_of(BASE, (4 * MIB, "inactive"), (16 * MIB, "inactive"))], [])
    [hole] = holes(found.devices[0].segments)
    assert isinstance(hole, Hole)
    assert hole.size == 20 * MIB


def test_a_window_keeps_its_own_events_and_their_free_bytes():
    oom = {"action": "oom", "device_free": 7, "size": 512, "stream": 0, "time_us": 5, "frames": []}
    timeline = content(FINAL, [*EVENTS, oom]).devices[0].timeline
    part = window(timeline, 5, 8)
    assert part.kind.tolist() == [Kind.SEGMENT_ALLOC, Kind.ALLOC, Kind.OOM]
    assert dict(part.free_bytes) == {2: 7}
    assert len(window(timeline, 3, 3)) == 0
    assert len(window(timeline, -5, 99)) == len(timeline)
