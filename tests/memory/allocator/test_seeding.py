"""Starting from a layout, and the drivers' addresses."""

from __future__ import annotations

import random

import pytest

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import ADDRESS_RANGE, LARGE_SEGMENT, SMALL_SEGMENT, Driver
from oomph.memory.allocator.layout import BlockState, Reservation, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings

MIB, GIB = 2**20, 2**30


def seeded(segments, reservations=None, **chosen) -> CachingAllocator:
    made = CachingAllocator(AllocatorSettings(**chosen), device_total_bytes=64 * MIB)
    made.seed(segments, reservations)
    return made


def segment(address, sizes, states, *, small=False, expandable=False, stream=0):
    blocks = []
    for size, state in zip(sizes, states, strict=True):
        name = {"a": "active_allocated", "p": "active_pending_free", "f": "inactive"}[state]
        start = address + sum(sizes[: len(blocks)])
        blocks.append(BlockState(start, size, 0 if state == "f" else size - 1, name))
    return SegmentState(address, sum(sizes), stream, (0, 0), small, expandable, blocks)


def keys(made):
    return [(s.key(), [b.key() for b in s.blocks]) for s in made.layout()]


@pytest.mark.parametrize("expandable", [False, True])
def test_a_layout_can_be_taken_over_in_the_middle(expandable):
    rng = random.Random(5)
    made = CachingAllocator(AllocatorSettings(expandable_segments=expandable))
    live: list[int] = []
    for _ in range(400):
        if live and rng.random() < 0.45:
            made.free(live.pop(rng.randrange(len(live))))
        else:
            live.append(made.malloc(rng.choice([600, 70_000, 3 * MIB, 12 * MIB]), rng.randrange(2)))
    copy = CachingAllocator(AllocatorSettings(expandable_segments=expandable), driver=made.driver)
    copy.seed(made.layout())
    assert keys(copy) == keys(made)
    current = {name: value for name, value in made.stats().items() if name.endswith(".current")}
    assert {name: value for name, value in copy.stats().items() if name.endswith(".current")} == current
    assert copy.peak_reserved_bytes == copy.reserved_bytes == made.reserved_bytes
    for size in (600, 70_000, 3 * MIB, 9 * MIB):
        assert copy.malloc(size) == made.malloc(size)
    for address in live:
        copy.free(address)
        made.free(address)
    assert keys(copy) == keys(made)


def test_free_neighbours_of_a_layout_become_one():
    made = seeded([segment(GIB, [4 * MIB, 6 * MIB, 10 * MIB], "fff")])
    assert [(b.size, b.state) for b in made.layout()[0].blocks] == [(20 * MIB, "inactive")]
    assert made.stats()["inactive_split.all.current"] == 0


def test_blocks_pending_free_wait_for_completion():
    made = seeded([segment(GIB, [4 * MIB, 16 * MIB], "pf")])
    assert (made.allocated_bytes, made.active_bytes) == (0, 4 * MIB)
    made.complete(GIB)
    assert [b.size for b in made.layout()[0].blocks] == [20 * MIB]


def test_expandable_ranges_close_together_share_a_reservation():
    made = seeded(
        [
            segment(GIB, [20 * MIB], "a", expandable=True),
            segment(GIB + 40 * MIB, [20 * MIB], "a", expandable=True),
        ],
        expandable_segments=True,
    )
    assert made.malloc(15 * MIB) == GIB + 20 * MIB
    assert made.malloc(5 * MIB) == GIB + 35 * MIB
    assert made.malloc(5 * MIB) == GIB + 60 * MIB


def test_a_reservation_may_begin_below_what_is_mapped():
    known = Reservation(GIB - 20 * MIB, 80 * MIB, 0, (0, 0), False)
    made = seeded([segment(GIB, [20 * MIB], "a", expandable=True)], [known], expandable_segments=True)
    assert made.malloc(15 * MIB) == GIB - 20 * MIB


def test_streams_and_pools_do_not_share_a_reservation():
    made = seeded(
        [
            segment(GIB, [20 * MIB], "a", expandable=True),
            segment(GIB + 20 * MIB, [20 * MIB], "a", expandable=True, stream=1),
        ],
        expandable_segments=True,
    )
    made.free(GIB)
    made.free(GIB + 20 * MIB)
    assert len(made.layout()) == 2


def test_addresses_descend_or_ascend():
    down, up = Driver.descending(), Driver.ascending()
    for size, kind in ((2 * MIB, SMALL_SEGMENT), (40 * MIB, LARGE_SEGMENT), (GIB, ADDRESS_RANGE)):
        before = down.reserve(size, kind)
        assert down.reserve(size, kind) + size <= before
        before = up.reserve(size, kind)
        assert up.reserve(size, kind) >= before + size
    assert down.reserve(33 * MIB, LARGE_SEGMENT) % (32 * MIB) == 0


def test_given_addresses_come_first_and_missing_ones_are_counted():
    driver = Driver.given([GIB])
    driver.feed(2 * GIB)
    assert [driver.reserve(2 * MIB, SMALL_SEGMENT) for _ in range(2)] == [GIB, 2 * GIB]
    assert driver.invented == 0
    driver.reserve(2 * MIB, SMALL_SEGMENT)
    assert driver.invented == 1
    driver.feed(GIB)
    driver.clear()
    assert driver.reserve(2 * MIB, SMALL_SEGMENT) != GIB
