"""Rule by rule, with the arithmetic written out. Addresses are given, so that every order is visible."""

from __future__ import annotations

import pytest

from oomph.memory.allocator.arena import OOM, SEGMENT_ALLOC, SEGMENT_FREE
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory, ReplayError
from oomph.memory.allocator.settings import AllocatorSettings

KIB, MIB, GIB = 2**10, 2**20, 2**30
A, B, C, D = (n * GIB for n in (1, 2, 3, 4))


def allocator(*addresses: int, capacity: int | None = None, **chosen) -> CachingAllocator:
    return CachingAllocator(AllocatorSettings(**chosen), capacity, Driver.given(addresses or (A, B, C, D)))


def events(made: CachingAllocator) -> list[tuple[int, int]]:
    return [(kind, address) for kind, address, _, _ in made.segment_events]


def blocks(made: CachingAllocator) -> list[tuple[int, int, str]]:
    return [(b.address, b.size, b.state) for s in made.layout() for b in s.blocks]


def test_small_requests_share_a_two_mebibyte_segment():
    made = allocator(A)
    assert [made.malloc(1000), made.malloc(600), made.malloc(512)] == [A, A + 1024, A + 2048]
    assert made.reserved_bytes == 2 * MIB
    assert made.allocated_bytes == 1024 + 1024 + 512
    assert made.requested_bytes == 1000 + 600 + 512


def test_nothing_is_asked_for_zero_bytes():
    made = allocator()
    assert made.malloc(0) == 0
    made.free(0)
    assert made.segment_events == []


def test_the_rest_of_a_large_block_is_kept_whole_up_to_one_mebibyte():
    made = allocator(A, B)
    made.malloc(11 * MIB)  # a segment of 12 MiB; the rest is 1 MiB, not more
    assert made.allocated_bytes == 12 * MIB
    made.malloc(11 * MIB - 512)  # the rest is 1 MiB + 512
    assert made.allocated_bytes == 12 * MIB + 11 * MIB - 512
    assert blocks(made)[-1] == (B + 11 * MIB - 512, MIB + 512, "inactive")


def test_the_smallest_block_that_fits_is_taken():
    made = allocator(A, B, C)
    for size in (30 * MIB, 20 * MIB, 26 * MIB):
        made.malloc(size)
    for address in (A, B, C):
        made.free(address)
    assert made.malloc(25 * MIB) == C


def test_of_equal_blocks_the_lowest_address_is_taken():
    made = allocator(C, A, B)
    for _ in range(3):
        made.malloc(20 * MIB)
    for address in (C, B, A):
        made.free(address)
    assert [made.malloc(20 * MIB) for _ in range(3)] == [A, B, C]


def test_a_stream_takes_only_its_own_blocks():
    made = allocator(A, B)
    made.free(made.malloc(20 * MIB, stream=7))
    assert made.malloc(20 * MIB, stream=8) == B
    assert made.malloc(20 * MIB, stream=7) == A


def test_small_and_large_pools_do_not_mix():
    made = allocator(A, B)
    made.free(made.malloc(12 * MIB))
    assert made.malloc(1 * MIB) == B


def test_free_neighbours_merge_on_both_sides():
    made = allocator(A)
    first, second, third, _ = (made.malloc(4 * MIB) for _ in range(4))
    made.free(first)
    made.free(third)
    made.free(second)
    assert blocks(made) == [
        (A, 12 * MIB, "inactive"),
        (A + 12 * MIB, 4 * MIB, "active_allocated"),
        (A + 16 * MIB, 4 * MIB, "inactive"),
    ]


def test_alloc_and_free_leave_one_whole_segment():
    made = allocator(A)
    addresses = [made.malloc(size) for size in (2 * MIB, 3 * MIB, 5 * MIB)]
    for address in addresses:
        made.free(address)
    assert blocks(made) == [(A, 20 * MIB, "inactive")]
    stats = made.stats()
    assert stats["inactive_split.all.current"] == 0
    assert stats["allocated_bytes.large_pool.freed"] == 10 * MIB


def test_freeing_what_is_not_allocated_is_refused():
    made = allocator(A)
    address = made.malloc(512)
    made.free(address)
    for act in (made.free, made.free_requested, made.complete):
        with pytest.raises(ReplayError, match="0x40000000"):
            act(address)
    with pytest.raises(ReplayError):
        made.record_stream(address, 1)
    other = made.malloc(512)
    made.free_requested(other)
    with pytest.raises(ReplayError):
        made.free(other)


def test_an_address_in_use_cannot_be_given_again():
    made = allocator(A, A)
    made.malloc(20 * MIB)
    with pytest.raises(ReplayError, match="overlap at 0x40000000"):
        made.malloc(20 * MIB)


# the slow path


def test_out_of_memory_releases_everything_first_and_counts():
    made = allocator(A, B, C, capacity=100 * MIB)
    made.malloc(40 * MIB)
    made.free(made.malloc(30 * MIB))
    with pytest.raises(DeviceOutOfMemory) as caught:
        made.malloc(61 * MIB)
    # 40 stay; 61 MiB are rounded to a segment of 62; 100 - 40 = 60 are free
    assert caught.value.segment_bytes == 62 * MIB
    assert caught.value.rounded_bytes == 61 * MIB
    assert caught.value.free_bytes == 60 * MIB
    assert (caught.value.reserved_bytes, caught.value.allocated_bytes) == (40 * MIB, 40 * MIB)
    assert "Tried to allocate 62.00 MiB" in str(caught.value)
    assert made.segment_events[-2:] == [(SEGMENT_FREE, B, 30 * MIB, 0), (OOM, 60 * MIB, 61 * MIB, 0)]
    assert (made.num_alloc_retries, made.num_ooms) == (1, 1)
    assert made.stats()["num_sync_all_streams"] == 1


def test_a_retry_that_helps_counts_too_and_frees_all_that_is_free():
    made = allocator(A, B, C, D, capacity=100 * MIB)
    made.free(made.malloc(40 * MIB))
    kept = made.malloc(20 * MIB)
    made.malloc(512)
    assert kept == A  # 20 of the 40: split, so the segment has to stay
    made.malloc(30 * MIB)
    made.free(C)
    assert made.malloc(50 * MIB) == D
    assert events(made) == [
        (SEGMENT_ALLOC, A),
        (SEGMENT_ALLOC, B),
        (SEGMENT_ALLOC, C),
        (SEGMENT_FREE, C),
        (SEGMENT_ALLOC, D),
    ]
    assert made.num_alloc_retries == 1


def test_the_large_pool_is_released_first_by_stream_size_and_address():
    requests = [(512, 0), (20 * MIB, 1), (30 * MIB, 0), (20 * MIB, 0), (20 * MIB, 0)]
    made = allocator(6 * GIB, 5 * GIB, 4 * GIB, 3 * GIB, 2 * GIB)
    live = [made.malloc(size, stream) for size, stream in requests]
    for address in live:
        made.free(address)
    made.empty_cache()
    # stream 0: 20 MiB at 2 GiB, 20 MiB at 3 GiB, 30 MiB at 4 GiB; stream 1; then the small pool
    released = [address // GIB for kind, address in events(made) if kind == SEGMENT_FREE]
    assert released == [2, 3, 4, 5, 6]


def test_a_limit_counts_the_segment_not_the_request():
    made = allocator()
    made.set_limit(20 * MIB)
    made.malloc(2 * MIB)  # a segment of 20
    with pytest.raises(DeviceOutOfMemory):
        made.malloc(512)  # 20 + 2
    made.set_limit(22 * MIB)
    made.malloc(512)
    made.set_limit(None)
    made.malloc(GIB)


def test_the_fraction_of_the_settings_is_of_the_device():
    made = CachingAllocator(AllocatorSettings(fraction=0.5), 90 * MIB, device_total_bytes=100 * MIB)
    made.malloc(50 * MIB)
    with pytest.raises(DeviceOutOfMemory) as caught:
        made.malloc(512)
    assert caught.value.free_bytes == 40 * MIB


def test_a_request_over_the_cap_can_be_rejected_with_nothing_released():
    made = allocator(A, throw_on_cudamalloc_oom=True)
    made.set_limit(30 * MIB)
    made.free(made.malloc(20 * MIB))
    with pytest.raises(DeviceOutOfMemory) as caught:
        made.malloc(21 * MIB)  # 20 + 22 > 30, although 20 could be released
    assert caught.value.rejected
    stats = made.stats()
    assert (stats["num_oom_rejections"], stats["num_ooms"], stats["num_alloc_retries"]) == (1, 0, 0)
    assert events(made) == [(SEGMENT_ALLOC, A)]
    made = allocator(A, B)
    made.set_limit(30 * MIB)
    made.free(made.malloc(20 * MIB))
    assert made.malloc(21 * MIB) == B


# max_split_size_mb


def test_an_oversize_block_is_neither_split_nor_given_to_a_smaller_request():
    made = allocator(A, B, C, max_split_size_bytes=20 * MIB)
    made.free(made.malloc(40 * MIB))
    assert made.malloc(19 * MIB) == B  # 19 < 20 <= 40
    assert made.malloc(21 * MIB) == A  # 40 < 21 + 20: taken whole
    assert made.stats()["allocated_bytes.all.current"] == 40 * MIB + 20 * MIB
    assert made.stats()["oversize_allocations.current"] == 2  # the 19 sit in a whole block of 20
    assert made.stats()["oversize_segments.current"] == 2  # 40 and 20, which is where oversize begins


def test_an_oversize_block_may_exceed_the_request_by_less_than_the_rounding():
    made = allocator(A, B, max_split_size_bytes=20 * MIB)
    made.free(made.malloc(40 * MIB))
    assert made.malloc(20 * MIB) == B  # 40 >= 20 + 20
    made = allocator(A, B, max_split_size_bytes=20 * MIB)
    made.free(made.malloc(40 * MIB))
    assert made.malloc(20 * MIB + 512) == A


def test_one_oversize_block_that_is_large_enough_is_released_before_all():
    made = allocator(A, B, C, D, capacity=160 * MIB, max_split_size_bytes=20 * MIB)
    for size in (50, 100):
        made.malloc(size * MIB)
    made.free(A)
    made.free(B)
    # 100 - 60 < 20 is false (100 >= 60 + 20), so nothing cached serves; 150 + 60 > 160; 100 is the first >= 60
    assert made.malloc(60 * MIB) == C
    assert events(made)[2:] == [(SEGMENT_FREE, B), (SEGMENT_ALLOC, C)]
    assert made.num_alloc_retries == 0


def test_oversize_blocks_are_released_from_the_largest_until_there_is_enough():
    made = allocator(A, B, C, D, capacity=110 * MIB, max_split_size_bytes=20 * MIB)
    for size in (24, 30, 40):
        made.malloc(size * MIB)
    for address in (A, B, C):
        made.free(address)
    # 94 reserved; 70 wanted: 40 + 30 = 70 are given back, 24 stay
    assert made.malloc(70 * MIB) == D
    assert events(made)[3:] == [(SEGMENT_FREE, C), (SEGMENT_FREE, B), (SEGMENT_ALLOC, D)]


# garbage_collection_threshold


def collecting(*addresses: int, limit: int, threshold: float) -> CachingAllocator:
    made = allocator(*addresses, garbage_collection_threshold=threshold)
    made.set_limit(limit)
    return made


def test_old_segments_are_collected_before_the_driver_is_asked():
    made = collecting(A, B, C, D, limit=1000 * MIB, threshold=0.05)
    old, young = made.malloc(20 * MIB), made.malloc(30 * MIB)
    made.free(old)  # after search 2
    for _ in range(4):
        made.free(made.malloc(25 * MIB, stream=1))  # searches 3 to 6
    made.free(young)  # after search 6
    # reserved 20 + 30 + 26 = 76 > 50. Search 7: ages 5, 1 and 1 (stream 1's), mean 7/3: only the old one goes: 56 left,
    # 20 < 26 wanted; then ages 1 and 1, mean 1: both go.
    made.malloc(100 * MIB)
    assert events(made)[3:] == [
        (SEGMENT_FREE, A),
        (SEGMENT_FREE, B),
        (SEGMENT_FREE, C),
        (SEGMENT_ALLOC, D),
    ]


def test_collection_stops_once_enough_is_free():
    made = collecting(A, B, C, D, limit=1700 * MIB, threshold=0.03)
    old, young = made.malloc(20 * MIB), made.malloc(30 * MIB)
    made.free(old)  # after search 2
    made.malloc(20 * MIB, stream=1)  # search 3; its segment C makes 70 in all
    made.free(young)
    # allowed are 0.03 * 1700 = 51: 19 over. Search 4: ages 2 and 1, mean 1.5: A's 20 are enough
    made.malloc(100 * MIB)
    assert events(made)[3:] == [(SEGMENT_FREE, A), (SEGMENT_ALLOC, D)]


def test_searches_of_the_small_pool_make_no_large_block_older():
    made = collecting(A, B, C, D, limit=1700 * MIB, threshold=0.03)
    first, second = made.malloc(20 * MIB), made.malloc(30 * MIB)
    made.free(first)
    for _ in range(3):
        made.free(made.malloc(512))
    made.free(second)
    made.malloc(100 * MIB)  # 52 - 51 = 1 over; both of age 1, mean 1: both go
    assert events(made)[3:] == [(SEGMENT_FREE, A), (SEGMENT_FREE, B), (SEGMENT_ALLOC, D)]


def test_no_collection_without_a_limit_or_below_the_threshold():
    for limit in (None, 1000 * MIB):
        made = allocator(garbage_collection_threshold=0.9)
        made.set_limit(limit)
        made.free(made.malloc(20 * MIB))
        made.malloc(100 * MIB)
        assert [kind for kind, _ in events(made)] == [SEGMENT_ALLOC, SEGMENT_ALLOC]


# counters


def test_the_keys_of_memory_stats():
    stats = allocator().stats()
    # 9 counters for 3 pools and 2 oversize ones, 4 numbers each; 3 + 3 + 1 single numbers
    assert len(stats) == (9 * 3 + 2) * 4 + 7
    assert stats["max_split_size"] == -1
    assert list(stats) == sorted(stats)
    assert len(allocator(torch=(2, 5)).stats()) == (9 * 3 + 2) * 4 + 3
    assert allocator(max_split_size_bytes=GIB).stats()["max_split_size"] == GIB


def test_inactive_split_counts_free_parts_of_segments():
    made = allocator(A)
    first, second = made.malloc(4 * MIB), made.malloc(6 * MIB)
    stats = made.stats()
    assert (stats["inactive_split.all.current"], stats["inactive_split_bytes.all.current"]) == (1, 10 * MIB)
    made.free(first)
    stats = made.stats()
    assert (stats["inactive_split.all.current"], stats["inactive_split_bytes.all.current"]) == (2, 14 * MIB)
    made.free(second)
    stats = made.stats()
    assert (stats["inactive_split.all.current"], stats["inactive_split_bytes.all.current"]) == (0, 0)


def test_peaks_can_be_reset():
    made = allocator(A)
    made.free(made.malloc(4 * MIB))
    assert made.peak_allocated_bytes == 4 * MIB
    made.reset_peaks()
    assert (made.peak_allocated_bytes, made.peak_reserved_bytes) == (0, 20 * MIB)


def test_events_are_recorded_only_when_asked():
    made = CachingAllocator(AllocatorSettings(), record=False)
    made.malloc(512)
    assert made.segment_events == []
