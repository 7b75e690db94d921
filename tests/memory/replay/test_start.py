"""The state before the first event, by examples whose blocks are worked out by hand."""

from __future__ import annotations

from typing import Any

from oomph.evidence.snapshot import DeviceSnapshot, allocator_settings
from oomph.memory.replay import Start, start_state
from oomph.units import KIB, MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, read, segment, snapshot


def start(segments: list[Any], events: list[Any], **conf: Any) -> Start:
    content = read(snapshot(segments, [events], allocator_settings=SETTINGS | conf))
    device: DeviceSnapshot = content.devices[0]
    return start_state(device.segments, device.timeline, allocator_settings(content))


def blocks(result: Start) -> list[tuple[int, int, int, str]]:
    """(offset, size, requested, state) of all blocks, states shortened."""
    return [
        (each.address - BASE, each.size, each.requested, each.state.removeprefix("active_"))
        for one in result.segments
        for each in one.blocks
    ]


def large(*parts: tuple[int, str], address: int = BASE, **more: Any) -> dict[str, Any]:
    """A segment of the large pool with blocks of these sizes and states."""
    result = []
    here = address
    for size, state in parts:
        result.append(block(here, size, state))
        here += size
    return segment(address, result, segment_type="large", **more)


def freed(addr: int, size: int) -> list[dict[str, Any]]:
    return [event("free_requested", addr, size), event("free_completed", addr, size)]


def test_without_events_the_start_is_the_end():
    result = start([large((8 * MIB, "active_allocated"), (12 * MIB, "inactive"))], [])
    assert blocks(result) == [(0, 8 * MIB, 8 * MIB, "allocated"), (8 * MIB, 12 * MIB, 0, "inactive")]


def test_what_was_allocated_within_the_trace_was_free():
    final = [large((8 * MIB, "active_allocated"), (12 * MIB, "inactive"))]
    result = start(final, [event("alloc", BASE, 8 * MIB)])
    assert blocks(result) == [(0, 20 * MIB, 0, "inactive")]


def test_what_was_freed_within_the_trace_was_in_use():
    # 3,000,000 bytes are 5859.4 times 512: a block of 5860 * 512 = 3,000,320. Behind it 17,971,200 free, far more
    # than the 1 MiB that can be left at a block, so that the end is a guess.
    result = start([large((20 * MIB, "inactive"))], freed(BASE, 3_000_000))
    assert blocks(result) == [
        (0, 3_000_320, 3_000_000, "allocated"),
        (3_000_320, 20 * MIB - 3_000_320, 0, "inactive"),
    ]
    assert result.unsure == 1


def test_the_rest_that_was_too_small_to_split_belongs_to_the_block():
    # 12 MiB less 11 MiB: exactly 1 MiB is not split off.
    result = start([large((12 * MIB, "inactive"))], freed(BASE, 11 * MIB))
    assert blocks(result) == [(0, 12 * MIB, 11 * MIB, "allocated")]
    assert result.unsure == 0


def test_one_page_more_was_split_off():
    whole = 12 * MIB + 512
    result = start([large((whole, "inactive"))], freed(BASE, 11 * MIB))
    assert blocks(result)[0] == (0, 11 * MIB, 11 * MIB, "allocated")


def test_a_later_allocation_behind_shows_where_the_block_ended():
    # Our block asked 3 MiB and had 3.5 MiB; the next allocation behind it begins there.
    second = BASE + 3 * MIB + 512 * KIB
    events = [event("alloc", second, 4 * MIB), *freed(BASE, 3 * MIB), *freed(second, 4 * MIB)]
    result = start([large((20 * MIB, "inactive"))], events)
    assert blocks(result)[0] == (0, 3 * MIB + 512 * KIB, 3 * MIB, "allocated")
    assert result.unsure == 0


def test_an_allocation_after_the_free_shows_nothing():
    second = BASE + 3 * MIB + 512 * KIB
    events = [*freed(BASE, 3 * MIB), event("alloc", second, 4 * MIB), *freed(second, 4 * MIB)]
    result = start([large((20 * MIB, "inactive"))], events)
    assert blocks(result)[0] == (0, 3 * MIB, 3 * MIB, "allocated")
    assert result.unsure == 1


def test_small_and_expandable_memory_is_always_split():
    result = start([segment(BASE)], freed(BASE, 700))
    assert blocks(result)[0] == (0, 1024, 700, "allocated")
    expandable = [large((20 * MIB, "inactive"), is_expandable=True)]
    result = start(expandable, freed(BASE, 20 * MIB - 5000), expandable_segments=True)
    # 20 MiB - 5000 = 20,966,520 is 40950.2 * 512: 40951 * 512 = 20,966,912
    assert blocks(result)[0] == (0, 20_966_912, 20 * MIB - 5000, "allocated")


def test_rounded_requests():
    # Four parts of a power of two: 5 MiB + 1 goes up by steps of 1 MiB (4 MiB / 4), to 6 MiB.
    divisions = {str(1 << bucket): 4 for bucket in range(16)}
    result = start(
        [large((20 * MIB, "inactive"))], freed(BASE, 5 * MIB + 1), roundup_power2_divisions=divisions
    )
    assert blocks(result)[0] == (0, 6 * MIB, 5 * MIB + 1, "allocated")


def test_a_block_that_waited_for_another_stream():
    result = start([segment(BASE)], [event("free_completed", BASE, 512)])
    assert blocks(result)[0] == (0, 512, 512, "pending_free")


def test_a_block_that_waits_at_the_end_has_its_size_there():
    final = [large((12 * MIB, "active_pending_free"), (8 * MIB, "inactive"))]
    result = start(final, [event("free_requested", BASE, 11 * MIB + 512)])
    assert blocks(result)[0] == (0, 12 * MIB, 11 * MIB + 512, "allocated")
    assert result.completions


def test_a_recording_without_completions():
    result = start([segment(BASE)], [event("free_requested", BASE, 512), event("alloc", BASE, 512)])
    assert not result.completions
    assert blocks(result)[0] == (0, 512, 512, "allocated")


def test_segments_are_undone():
    new, old = BASE + 64 * MIB, BASE + 128 * MIB
    events = [
        event("segment_alloc", new, 20 * MIB),
        event("segment_free", old, 2 * MIB),
        event("segment_free", old + 64 * MIB, 32 * MIB),
    ]
    result = start([large((20 * MIB, "inactive")), large((20 * MIB, "inactive"), address=new)], events)
    assert [(each.address, each.size, each.small) for each in result.segments] == [
        (BASE, 20 * MIB, False),
        (old, 2 * MIB, True),
        (old + 64 * MIB, 32 * MIB, False),
    ]
    assert result.reserved_bytes == 54 * MIB


def test_an_address_that_was_given_back_and_taken_again():
    events = [
        *freed(BASE, 12 * MIB),
        event("segment_free", BASE, 12 * MIB),
        event("segment_alloc", BASE, 20 * MIB),
    ]
    result = start([large((20 * MIB, "inactive"))], events)
    assert blocks(result) == [(0, 12 * MIB, 12 * MIB, "allocated")]


def expandable(pages: int, first: int = 0) -> dict[str, Any]:
    return large((20 * MIB * pages, "inactive"), address=BASE + 20 * MIB * first, is_expandable=True)


def test_mapped_pages_are_undone():
    # At the end pages 0 to 4 are mapped. The trace mapped 3 and 4, and before that gave up 5 and 6.
    events = [
        event("segment_unmap", BASE + 100 * MIB, 40 * MIB),
        event("segment_map", BASE + 60 * MIB, 40 * MIB),
    ]
    result = start([expandable(5)], events, expandable_segments=True)
    assert [(each.address - BASE, each.size) for each in result.segments] == [
        (0, 60 * MIB),
        (100 * MIB, 40 * MIB),
    ]


def test_pages_that_were_mapped_between_two_ranges_join_them():
    result = start(
        [expandable(2), expandable(2, first=3)], [event("segment_unmap", BASE + 40 * MIB, 20 * MIB)]
    )
    assert [(each.address - BASE, each.size) for each in result.segments] == [(0, 100 * MIB)]


def test_a_reservation_begins_where_it_is_first_mapped():
    # Page 3 is there at the start; the trace maps page 1 later: the reservation began there or below.
    result = start(
        [expandable(1, first=3), expandable(1, first=1)], [event("segment_map", BASE + 20 * MIB, 20 * MIB)]
    )
    assert [each.address - BASE for each in result.segments] == [60 * MIB]
    assert [each.address - BASE for each in result.reservations] == [20 * MIB]


def test_blocks_that_belong_nowhere_are_counted():
    result = start([segment(BASE)], [*freed(BASE - 4096, 512), *freed(BASE + 64 * MIB, 512)])
    assert result.lost == 2
    overlapping = [*freed(BASE, 4096), *freed(BASE + 512, 512)]
    assert start([segment(BASE)], overlapping).lost == 1
