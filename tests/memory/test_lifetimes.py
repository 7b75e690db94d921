"""Blocks of a trace: when each was born, asked back and given back."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.snapshot import allocator_settings
from oomph.memory.lifetimes import Lifetimes, lifetimes
from oomph.memory.replay.start import start_state
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, read, segment, snapshot


def lives(segments: list[Any], events: list[Any], **conf: Any) -> Lifetimes:
    content = read(snapshot(segments, [events], allocator_settings=SETTINGS | conf))
    device, settings = content.devices[0], allocator_settings(content)
    start = start_state(device.segments, device.timeline, settings)
    return lifetimes(device.timeline, start, settings, device.segments)


def rows(found: Lifetimes) -> list[tuple[int, int, int, int, int]]:
    """(offset, requested, born, freed, done) of every block."""
    return [
        (int(a) - BASE, int(r), int(b), int(f), int(d))
        for a, r, b, f, d in zip(
            found.address, found.requested_bytes, found.born, found.freed, found.done, strict=True
        )
    ]


def large(*parts: tuple[int, str], **more: Any) -> dict[str, Any]:
    result, here = [], BASE
    for size, state in parts:
        result.append(block(here, size, state))
        here += size
    return segment(BASE, result, segment_type="large", **more)


EMPTY = large((20 * MIB, "inactive"))


def test_a_block_that_is_born_and_freed():
    events = [
        event("alloc", BASE, 3_000_000),
        event("free_requested", BASE, 3_000_000),
        event("free_completed", BASE, 3_000_000),
    ]
    found = lives([EMPTY], events)
    assert rows(found) == [(0, 3_000_000, 0, 1, 2)]
    # 3,000,000 / 512 = 5859.4: 5860 x 512 bytes.
    assert found.size_bytes.tolist() == [3_000_320]
    assert [found.alive_at(position).tolist() for position in (-1, 0, 1, 2)] == [[], [0], [], []]


def test_one_address_can_serve_several_blocks():
    events = [
        event("alloc", BASE, 2 * MIB),
        event("free_requested", BASE, 2 * MIB),
        event("free_completed", BASE, 2 * MIB),
        event("alloc", BASE, 4 * MIB),
    ]
    found = lives([large((4 * MIB, "active_allocated"), (16 * MIB, "inactive"))], events)
    assert rows(found) == [(0, 2 * MIB, 0, 1, 2), (0, 4 * MIB, 3, 4, 4)]


def test_a_block_from_before_the_trace_keeps_its_exact_size():
    # Asked for 11 MiB, in a segment of 12 MiB: the rest of 1 MiB could not be split off.
    events = [event("free_requested", BASE, 11 * MIB), event("free_completed", BASE, 11 * MIB)]
    found = lives([large((12 * MIB, "inactive"))], events)
    assert rows(found) == [(0, 11 * MIB, -1, 0, 1)]
    assert found.size_bytes.tolist() == [12 * MIB]
    assert found.alive_at(-1).tolist() == [0]


def test_a_block_that_no_event_names():
    found = lives(
        [large((8 * MIB, "active_allocated"), (12 * MIB, "inactive"))], [event("alloc", BASE + 8 * MIB, 1)]
    )
    assert (0, 8 * MIB, -1, 1, 1) in rows(found)


def test_a_free_that_waits_for_another_stream():
    events = [
        event("alloc", BASE, 2 * MIB),
        event("free_requested", BASE, 2 * MIB),
        event("alloc", BASE + 2 * MIB, 2 * MIB),
        event("free_completed", BASE, 2 * MIB),
    ]
    final = large((2 * MIB, "inactive"), (2 * MIB, "active_allocated"), (16 * MIB, "inactive"))
    assert rows(lives([final], events))[0] == (0, 2 * MIB, 0, 1, 3)


def test_a_free_that_was_asked_for_before_the_trace():
    found = lives([EMPTY], [event("free_completed", BASE, 2 * MIB)])
    assert rows(found) == [(0, 2 * MIB, -1, -1, 0)]
    assert found.alive_at(-1).tolist() == []


def test_an_allocation_where_one_was_ends_the_one_before():
    events = [event("alloc", BASE, 2 * MIB), event("alloc", BASE, 3 * MIB)]
    found = lives([large((3 * MIB, "active_allocated"), (17 * MIB, "inactive"))], events)
    assert rows(found)[0] == (0, 2 * MIB, 0, 1, 1)


def test_without_completions_a_free_ends_with_its_request():
    events = [event("alloc", BASE, 2 * MIB), event("free_requested", BASE, 2 * MIB)]
    assert rows(lives([EMPTY], events)) == [(0, 2 * MIB, 0, 1, 1)]


def test_requests_are_rounded_as_the_settings_say():
    # 1200 MiB in quarters of the power of two below (1024 MiB): steps of 256 MiB, so 1280 MiB.
    divisions = {str(1 << place): 4 for place in range(16)}
    final = large((1280 * MIB, "active_allocated"))
    found = lives([final], [event("alloc", BASE, 1200 * MIB)], roundup_power2_divisions=divisions)
    assert found.size_bytes.tolist() == [1280 * MIB]


def test_the_pool_is_that_of_the_segment_where_events_name_none():
    private = large((2 * MIB, "active_allocated"), (18 * MIB, "inactive"), segment_pool_id=(0, 3))
    found = lives([private], [event("alloc", BASE, 2 * MIB)])
    assert [found.pools[number] for number in found.pool.tolist()] == [(0, 3)]


@given(st.lists(st.integers(0, 4), max_size=60))
def test_what_is_alive_is_what_a_walk_over_the_events_finds(moves: list[int]):
    """Blocks of 2 MiB at five places, allocated and freed in any order that makes sense."""
    alive: set[int] = set()
    events, expected = [], []
    for place in moves:
        address = BASE + place * 2 * MIB
        if place in alive:
            alive.remove(place)
            events.append(event("free_requested", address, 2 * MIB))
            expected.append(set(alive))
            events.append(event("free_completed", address, 2 * MIB))
        else:
            alive.add(place)
            events.append(event("alloc", address, 2 * MIB))
        expected.append(set(alive))
    final = large(*((2 * MIB, "active_allocated" if place in alive else "inactive") for place in range(10)))
    found = lives([final], events)
    for position, places in enumerate(expected):
        there = found.address[found.alive_at(position)]
        assert {int(address - BASE) // (2 * MIB) for address in there} == places
    changes = found.allocated_changes()
    assert np.cumsum(changes).tolist() == [len(places) * 2 * MIB for places in expected]


def test_pools_that_no_segment_has():
    # Of the events that a snapshot without segments holds, one names a pool.
    events = [event("alloc", BASE, MIB, pool_id=(3, 1)), event("alloc", BASE + MIB, MIB)]
    found = lives([], events)
    assert [found.pools[number] for number in found.pool.tolist()] == [(3, 1), (0, 0)]
