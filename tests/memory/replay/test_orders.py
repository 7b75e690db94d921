"""The same requests under several orders of addresses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.snapshot import allocator_settings, read
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay import start_state
from oomph.memory.replay.orders import (
    ALLOC,
    EMPTY_CACHE,
    FREE,
    ORDERS,
    highest_orders,
    orders_by_group,
    requests_of,
    requests_of_columns,
    reserved_orders,
)
from oomph.memory.replay.pressure import capacities
from tests.memory.replay.recorder import Recorder

MIB = 1 << 20
DEFAULT = AllocatorSettings()
SHARED = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[4] / "shared")


def columns(rows):
    """(kind, block, bytes) rows as requests of one stream."""
    kinds, blocks, sizes = zip(*rows, strict=True)
    return requests_of_columns(kinds, blocks, sizes, [0] * len(rows))


@st.composite
def rows(draw, sizes):
    """A sequence that frees only what is there, with an empty_cache now and then."""
    live: list[int] = []
    made = []
    for block in range(1, draw(st.integers(1, 60))):
        what = draw(st.sampled_from("aaaffe"))
        if what == "a":
            live.append(block)
            made.append((ALLOC, block, draw(sizes)))
        elif what == "f" and live:
            made.append((FREE, live.pop(draw(st.integers(0, len(live) - 1))), 0))
        elif what == "e":
            made.append((EMPTY_CACHE, 0, 0))
    return made or [(ALLOC, 1, 512)]


def peak(sequence, bytes_of):
    """The most that is in use at once, `bytes_of` telling what a request of so many bytes uses."""
    held: dict[int, int] = {}
    most = 0
    for kind, block, size in sequence:
        if kind == ALLOC:
            held[block] = bytes_of(size)
        elif kind == FREE:
            del held[block]
        most = max(most, sum(held.values()))
    return most


def rounded(size: int) -> int:
    return (size + 511) // 512 * 512


WHOLE = st.one_of(st.integers(1, MIB), st.integers(1, 40).map(lambda count: 2 * MIB * count))
ANY = st.one_of(st.integers(1, MIB), st.integers(MIB + 1, 70 * MIB))


@settings(deadline=None, max_examples=60)
@given(rows(WHOLE))
def test_allocated_is_the_same_in_all_orders_where_every_block_can_be_split(sequence) -> None:
    # Multiples of 2 MiB leave 0 or at least 2 MiB of a large block: nothing counts but what was asked for.
    found = reserved_orders(columns(sequence), DEFAULT)
    assert set(found.allocated) == {peak(sequence, rounded)}
    assert found.fails is False


@settings(deadline=None, max_examples=60)
@given(rows(ANY))
def test_allocated_differs_by_less_than_what_cannot_be_split_off(sequence) -> None:
    found = reserved_orders(columns(sequence), DEFAULT)
    least = peak(sequence, rounded)
    most = peak(sequence, lambda size: rounded(size) + (MIB if size > MIB else 0))
    assert all(least <= value <= most for value in found.allocated)
    assert all(held >= used for held, used in zip(found.values, found.allocated, strict=True))


@settings(deadline=None, max_examples=30)
@given(rows(ANY))
def test_with_expandable_segments_no_order_allocates_more_than_was_asked_for(sequence) -> None:
    found = reserved_orders(columns(sequence), AllocatorSettings.parse("expandable_segments:True"))
    assert set(found.allocated) == {peak(sequence, rounded)}


@settings(deadline=None, max_examples=40)
@given(rows(ANY))
def test_each_order_is_what_an_allocator_with_such_a_driver_does(sequence) -> None:
    found = reserved_orders(columns(sequence), DEFAULT)
    for (_, driver), value in zip(ORDERS, found.values, strict=True):
        allocator = CachingAllocator(DEFAULT, driver=driver())
        where: dict[int, int] = {}
        for kind, block, size in sequence:
            if kind == ALLOC:
                where[block] = allocator.malloc(size)
            elif kind == FREE:
                allocator.free(where.pop(block))
            else:
                allocator.empty_cache()
        assert value == allocator.peak_reserved_bytes


def test_a_tie_that_the_lower_address_decides() -> None:
    # Three segments of 20 MiB, each with 10 MiB free; one of 5 MiB is cut from the lowest.
    # Down: from the third. When that segment's other half goes, 15 MiB are free in it; up: from the first, which
    # keeps its other half, and the third's 20 MiB are whole again.
    sequence = [(ALLOC, n, 9 * MIB) for n in (1, 2, 3, 4, 5, 6)]
    sequence += [(FREE, n, 0) for n in (2, 4, 6)]
    sequence += [(ALLOC, 7, 5 * MIB), (FREE, 5, 0), (ALLOC, 8, 16 * MIB)]
    found = reserved_orders(columns(sequence), DEFAULT)
    by_name = dict(zip(found.names, found.values, strict=True))
    assert by_name["descending"] == 76 * MIB  # 16 MiB find no place: a segment of their own
    assert by_name["ascending"] == 60 * MIB
    assert (found.low, found.high) == (60 * MIB, 76 * MIB)


def test_as_many_orders_as_asked_for_the_likeliest_first() -> None:
    requests = columns([(ALLOC, 1, MIB)])
    assert reserved_orders(requests, DEFAULT, orders=2).names == ("packed", "descending")
    assert len(reserved_orders(requests, DEFAULT).values) == 8
    for orders in (0, 9):
        with pytest.raises(ValueError, match="from 1 to 8"):
            reserved_orders(requests, DEFAULT, orders=orders)


def test_a_full_device_ends_an_order_and_says_where() -> None:
    sequence = [(ALLOC, 1, 30 * MIB), (FREE, 1, 0), (ALLOC, 2, 40 * MIB), (ALLOC, 3, 30 * MIB)]
    found = reserved_orders(columns(sequence), DEFAULT, capacity_bytes=60 * MIB)
    # 40 MiB fit once the cached 30 are given back; then 30 more do not.
    assert found.fails
    assert set(found.fails_at) == {3}
    assert set(found.values) == {40 * MIB}
    # Without an end: 30 cached and 40, and the last request is served from the cache.
    assert set(reserved_orders(columns(sequence), DEFAULT).values) == {70 * MIB}


def test_what_was_emptied_stays_emptied() -> None:
    sequence = [(ALLOC, 1, 30 * MIB), (FREE, 1, 0), (EMPTY_CACHE, 0, 0), (ALLOC, 2, 40 * MIB)]
    assert set(reserved_orders(columns(sequence), DEFAULT).values) == {40 * MIB}
    kept = [row for row in sequence if row[0] != EMPTY_CACHE]
    assert set(reserved_orders(columns(kept), DEFAULT).values) == {70 * MIB}


def recorded():
    """30 MiB that come and go, the cache emptied, 40 MiB that stay."""
    recorder = Recorder(DEFAULT)
    recorder.malloc(30 * MIB)
    recorder.free(0)
    recorder.empty_cache()
    recorder.malloc(40 * MIB)
    return recorder.snapshot().devices[0].timeline


def test_a_timeline_is_played_with_its_releases() -> None:
    assert set(reserved_orders(requests_of(recorded()), DEFAULT).values) == {40 * MIB}


def test_a_window_counts_peaks_only_within() -> None:
    recorder = Recorder(DEFAULT)
    recorder.malloc(50 * MIB)
    recorder.free(0)
    recorder.empty_cache()
    recorder.malloc(12 * MIB)
    begin = len(recorder.events)
    recorder.malloc(14 * MIB)
    end = len(recorder.events)
    recorder.malloc(90 * MIB)
    timeline = recorder.snapshot().devices[0].timeline
    found = reserved_orders(requests_of(timeline, (begin, end)), DEFAULT)
    assert set(found.values) == set(found.allocated) == {26 * MIB}
    assert set(reserved_orders(requests_of(timeline), DEFAULT).values) == {116 * MIB}
    for window in ((-1, 2), (3, 2), (0, len(timeline) + 1)):
        with pytest.raises(ValueError, match="does not lie within"):
            requests_of(timeline, window)


def test_a_release_for_lack_of_memory_is_left_to_each_order() -> None:
    recorder = Recorder(DEFAULT, 60 * MIB)
    recorder.malloc(30 * MIB)
    recorder.free(0)
    recorder.malloc(40 * MIB)  # the cached 30 MiB are given back for it
    timeline = recorder.snapshot().devices[0].timeline
    requests = requests_of(timeline)
    assert set(reserved_orders(requests, DEFAULT, 60 * MIB).values) == {40 * MIB}
    # With more memory nothing has to be given back; without a word on what it was recorded with, the release was the
    # user's, since 80 MiB would have been enough.
    more = reserved_orders(requests, DEFAULT, 80 * MIB, recorded_capacity_bytes=60 * MIB)
    assert set(more.values) == {70 * MIB}
    assert set(reserved_orders(requests, DEFAULT, 80 * MIB).values) == {40 * MIB}


def test_each_part_has_the_peak_of_its_own_time() -> None:
    # 30 MiB stay. 40 more come and go in part 0; part 1 asks for 24 of them; part 0 then has 12 more, beside the 24.
    sequence = [(ALLOC, 1, 30 * MIB), (ALLOC, 2, 40 * MIB), (FREE, 2, 0), (EMPTY_CACHE, 0, 0)]
    sequence += [(ALLOC, 3, 24 * MIB), (ALLOC, 4, 12 * MIB), (FREE, 4, 0)]
    groups = [0, 0, 0, 0, 1, 0, 0]
    found = orders_by_group(columns(sequence), DEFAULT, groups)
    assert list(found) == [0, 1]
    assert set(found[0].values) == {70 * MIB}
    assert set(found[1].values) == set(found[1].allocated) == {54 * MIB}
    later = orders_by_group(columns(sequence), DEFAULT, [0, 0, 0, 0, 1, 2, 2])
    assert set(later[2].values) == set(later[2].allocated) == {66 * MIB}
    assert set(later[1].values) == {54 * MIB}


def test_a_part_begins_with_what_is_held() -> None:
    sequence = [(ALLOC, 1, 30 * MIB), (ALLOC, 2, 20 * MIB), (FREE, 1, 0), (FREE, 2, 0), (EMPTY_CACHE, 0, 0)]
    found = orders_by_group(columns(sequence), DEFAULT, [7, 7, 3, 3, 3])
    assert set(found[3].values) == set(found[3].allocated) == {50 * MIB}


def test_the_part_in_which_memory_runs_out_is_named() -> None:
    sequence = [(ALLOC, 1, 30 * MIB), (ALLOC, 2, 20 * MIB), (ALLOC, 3, 20 * MIB), (ALLOC, 4, 2 * MIB)]
    found = orders_by_group(columns(sequence), DEFAULT, [0, 1, 1, 2], 60 * MIB)
    assert set(found) == {0, 1}
    assert not found[0].fails
    assert set(found[1].fails_at) == {2}
    whole = highest_orders(found.values())
    assert whole == reserved_orders(columns(sequence), DEFAULT, 60 * MIB)


@settings(deadline=None, max_examples=40)
@given(rows(ANY), st.data())
def test_the_parts_together_are_the_whole(sequence, data) -> None:
    groups = data.draw(st.lists(st.integers(0, 3), min_size=len(sequence), max_size=len(sequence)))
    found = orders_by_group(columns(sequence), DEFAULT, groups)
    assert set(found) == set(groups)
    assert highest_orders(found.values()) == reserved_orders(columns(sequence), DEFAULT)


def test_parts_within_a_window() -> None:
    recorder = Recorder(DEFAULT)
    recorder.malloc(50 * MIB)
    recorder.free(0)
    recorder.empty_cache()
    begin = len(recorder.events)
    recorder.malloc(12 * MIB)
    recorder.malloc(14 * MIB)
    timeline = recorder.snapshot().devices[0].timeline
    groups = [0] * (begin + 2) + [1] * (len(timeline) - begin - 2)
    found = orders_by_group(requests_of(timeline, (begin, len(timeline))), DEFAULT, groups)
    assert set(found[0].values) == {12 * MIB}
    assert set(found[1].values) == {26 * MIB}


def test_parts_that_do_not_fit_the_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="2 groups for 1 events"):
        orders_by_group(columns([(ALLOC, 1, MIB)]), DEFAULT, [0, 1])
    with pytest.raises(ValueError, match="no orders to join"):
        highest_orders([])
    assert orders_by_group(requests_of_columns([], [], [], []), DEFAULT, []) == {}


def test_columns_that_are_none() -> None:
    assert set(reserved_orders(requests_of_columns([], [], [], []), DEFAULT).values) == {0}
    with pytest.raises(ValueError, match="differ in length"):
        requests_of_columns([ALLOC], [1, 2], [3], [0])
    with pytest.raises(ValueError, match="ALLOC, FREE or EMPTY_CACHE"):
        requests_of_columns([7], [1], [3], [0])


def test_streams_do_not_share() -> None:
    found = reserved_orders(
        requests_of_columns([ALLOC, FREE, ALLOC], [1, 1, 2], [30 * MIB, 0, 30 * MIB], [0, 0, 7]), DEFAULT
    )
    assert set(found.values) == {60 * MIB}


def snapshots():
    """The real snapshots beside the repository; none where they are not."""
    folder = SHARED / "snapshots"
    manifest = folder / "manifest.json"
    return json.loads(manifest.read_text()) if manifest.is_file() else []


def test_the_recorded_peaks_of_real_runs_are_among_the_orders() -> None:
    """All of them, those that start from empty (the rest starts from what its beginning is known to hold) included."""
    for entry in snapshots():
        snapshot = read(SHARED / "snapshots" / entry["file"])
        its = allocator_settings(snapshot)
        for number, device in enumerate(device for device in snapshot.devices if len(device.timeline)):
            start = start_state(device.segments, device.timeline, its)
            # Where the file shows that the device was full, the capacity follows from it. One was emptied by
            # hand before large requests, which looks the same.
            known = capacities(device.timeline, start.reserved_bytes)
            capacity = known[0] if known and "emptied" not in entry["file"] else None
            requests = requests_of(device.timeline, start=start, final=device.segments)
            found = reserved_orders(requests, its, capacity)
            assert entry["peak_reserved_bytes"][number] in found.values, entry["file"]
            assert min(found.allocated) <= entry["peak_allocated_bytes"][number] <= max(found.allocated), (
                entry["file"]
            )
            assert found.high <= found.low * 1.05, entry["file"]
