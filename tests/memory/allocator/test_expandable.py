"""Expandable segments, with the arithmetic written out. The device has 64 MiB, so a reservation is 72 MiB."""

from __future__ import annotations

import pytest

from oomph.memory.allocator.arena import SEGMENT_MAP, SEGMENT_UNMAP
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.settings import AllocatorSettings

MIB, GIB = 2**20, 2**30
A, B = GIB, 2 * GIB


def allocator(*addresses: int, capacity: int | None = None, **chosen) -> CachingAllocator:
    return CachingAllocator(
        AllocatorSettings(expandable_segments=True, **chosen),
        capacity,
        Driver.given(addresses or (A, B, 3 * GIB)),
        device_total_bytes=64 * MIB,
    )


def moves(made: CachingAllocator) -> list[tuple[int, int, int]]:
    """(kind, MiB from A, MiB)."""
    return [(kind, (address - A) // MIB, size // MIB) for kind, address, size, _ in made.segment_events]


def blocks(made: CachingAllocator) -> list[tuple[int, int, str]]:
    return [((b.address - A) // MIB, b.size // MIB, b.state) for s in made.layout() for b in s.blocks]


def test_large_memory_is_mapped_in_pages_of_twenty_and_small_in_pages_of_two():
    made = allocator()
    assert made.malloc(3 * MIB) == A
    assert made.malloc(18 * MIB) == A + 3 * MIB  # 17 are left: one page more
    assert made.malloc(512) == B
    assert made.segment_events == [
        (SEGMENT_MAP, A, 20 * MIB, 0),
        (SEGMENT_MAP, A + 20 * MIB, 20 * MIB, 0),
        (SEGMENT_MAP, B, 2 * MIB, 0),
    ]
    assert made.reserved_bytes == 42 * MIB
    stats = made.stats()
    assert (stats["segment.all.current"], stats["num_device_alloc"]) == (0, 3)
    assert stats["inactive_split.all.peak"] == 0


def test_the_page_is_the_large_segment_size():
    made = allocator(large_segment_size_bytes=32 * MIB)
    made.malloc(3 * MIB)
    assert moves(made) == [(SEGMENT_MAP, 0, 32)]


def test_every_block_is_cut_from_512_bytes_on():
    made = allocator()
    made.malloc(20 * MIB - 512)
    assert made.allocated_bytes == 20 * MIB - 512


def test_only_whole_pages_are_unmapped():
    made = allocator()
    first, second = made.malloc(10 * MIB), made.malloc(45 * MIB)
    made.malloc(5 * MIB)
    made.free(second)  # 10 to 55: the pages from 20 to 40 lie within it
    made.empty_cache()
    assert moves(made) == [(SEGMENT_MAP, 0, 20), (SEGMENT_MAP, 20, 40), (SEGMENT_UNMAP, 20, 20)]
    assert blocks(made) == [
        (0, 10, "active_allocated"),
        (10, 10, "inactive"),
        (40, 15, "inactive"),
        (55, 5, "active_allocated"),
    ]
    assert [(s.address - A, s.size) for s in made.layout()] == [(0, 20 * MIB), (40 * MIB, 20 * MIB)]
    assert first == A


def test_a_hole_is_mapped_again_between_its_free_neighbours():
    made = allocator()
    made.malloc(10 * MIB)
    second = made.malloc(45 * MIB)
    made.malloc(5 * MIB)
    made.free(second)
    made.empty_cache()
    # 10 free before the hole, 20 in it, 15 behind: 40 fit, starting at the free 10
    assert made.malloc(40 * MIB) == A + 10 * MIB
    assert moves(made)[3:] == [(SEGMENT_MAP, 20, 20)]
    assert blocks(made)[1:3] == [(10, 40, "active_allocated"), (50, 5, "inactive")]


def test_a_block_that_can_grow_counts_as_large_as_it_can_grow():
    made = allocator()
    first = made.malloc(6 * MIB)
    made.malloc(6 * MIB)
    made.free(first)
    # free: 6 at 0 and 8 at 12, behind which addresses are left: 4 go into the 6, although both fit
    assert made.malloc(4 * MIB) == A
    # 5 fit only into the 8
    assert made.malloc(5 * MIB) == A + 12 * MIB
    made.free(A + 12 * MIB)
    third = made.malloc(8 * MIB)
    assert third == A + 12 * MIB


def test_a_larger_block_is_preferred_to_a_smaller_one_that_could_grow():
    made = allocator()
    made.malloc(4 * MIB)
    middle = made.malloc(9 * MIB)
    made.malloc(2 * MIB)  # 4 + 9 + 2 = 15: 5 are free at the end, and can grow
    made.free(middle)
    assert made.malloc(3 * MIB) == A + 4 * MIB  # of the 9, not of the 5


def test_a_reservation_that_is_full_is_followed_by_another():
    made = allocator()
    made.malloc(70 * MIB)  # pages up to 80 = the reservation: ceil(72 / 20) pages of 20
    assert made.malloc(20 * MIB) == B
    assert [(address, size // MIB) for _, address, size, _ in made.segment_events] == [(A, 80), (B, 20)]


def test_a_mapping_that_does_not_fit_gives_nothing():
    made = allocator(capacity=50 * MIB)
    made.malloc(15 * MIB)
    with pytest.raises(DeviceOutOfMemory) as caught:
        made.malloc(40 * MIB)  # 5 free, 35 more: two pages, and 20 + 40 > 50
    # the request's own segment of 40 MiB is what the message names
    assert caught.value.segment_bytes == 40 * MIB
    assert caught.value.free_bytes == 30 * MIB
    assert made.reserved_bytes == 20 * MIB
    assert made.num_alloc_retries == 1


def test_mapping_one_side_stays_when_the_other_fails():
    made = allocator(capacity=60 * MIB)
    first = made.malloc(20 * MIB)
    middle = made.malloc(20 * MIB)
    last = made.malloc(20 * MIB)
    made.free(first)
    made.free(last)
    made.empty_cache()  # 0 to 20 and 40 to 60 are unmapped
    assert made.reserved_bytes == 20 * MIB
    made.malloc(512)  # 22 of 60
    made.free(middle)
    # from 0: 20 unmapped, 20 free, 40 unmapped behind. 60 wanted: 20 at 0 (42 of 60), then 20 at 40: 62 > 60.
    # Everything free is unmapped then (2 stay), and 60 more do not fit either.
    with pytest.raises(DeviceOutOfMemory):
        made.malloc(60 * MIB)
    assert moves(made)[-3:-1] == [(SEGMENT_MAP, 0, 20), (SEGMENT_UNMAP, 0, 40)]


def test_other_streams_have_their_own_reservations():
    made = allocator()
    assert made.malloc(20 * MIB, stream=1) == A
    assert made.malloc(20 * MIB, stream=2) == B


def test_an_empty_reservation_is_given_back_and_made_anew():
    made = allocator()
    made.free(made.malloc(20 * MIB))
    made.empty_cache()
    assert made.layout() == []
    assert made.malloc(20 * MIB) == B


def test_private_pools_expand_since_2_5():
    for torch, kind in (((2, 5), SEGMENT_MAP), ((2, 4), 0)):
        made = allocator(torch=torch)
        made.malloc(20 * MIB, pool=(0, 1))
        assert [event[0] for event in made.segment_events] == [kind]


def test_a_limit_counts_the_segment_although_less_is_mapped():
    made = allocator()
    made.malloc(15 * MIB)
    made.set_limit(39 * MIB)
    with pytest.raises(DeviceOutOfMemory):
        made.malloc(6 * MIB)  # one page would do: 40; the test is 20 + 20 > 39
    made.set_limit(40 * MIB)
    made.malloc(6 * MIB)


def test_addresses_are_set_aside_when_something_can_be_mapped():
    made = allocator(capacity=30 * MIB)
    with pytest.raises(DeviceOutOfMemory):
        made.malloc(25 * MIB)
    assert made.malloc(15 * MIB) == A


def test_a_request_larger_than_a_reservation_gets_a_larger_one():
    made = allocator()
    assert made.malloc(100 * MIB) == A
    assert made.reserved_bytes == 100 * MIB


def test_with_expandable_segments_off_such_blocks_are_passed_over():
    before = allocator()
    before.free(before.malloc(20 * MIB))
    made = CachingAllocator(AllocatorSettings(), driver=Driver.given([B]))
    made.seed(before.layout())
    assert made.malloc(20 * MIB) == B


def test_with_expandable_segments_on_older_segments_serve_too():
    before = CachingAllocator(AllocatorSettings(), driver=Driver.given([A]))
    before.free(before.malloc(20 * MIB))
    made = allocator(B)
    made.seed(before.layout())
    assert made.malloc(20 * MIB - 512) == A
    assert made.allocated_bytes == 20 * MIB - 512  # cut as finely as expandable memory
    assert made.malloc(20 * MIB) == B
