"""Other streams and private pools, with every order visible: addresses are given."""

from __future__ import annotations

import pytest

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory, ReplayError
from oomph.memory.allocator.settings import AllocatorSettings

KIB, MIB, GIB = 2**10, 2**20, 2**30
A, B, C, D = (n * GIB for n in (1, 2, 3, 4))


def allocator(*addresses: int, capacity: int | None = None, **chosen) -> CachingAllocator:
    return CachingAllocator(AllocatorSettings(**chosen), capacity, Driver.given(addresses or (A, B, C, D)))


def blocks(made: CachingAllocator) -> list[tuple[int, int, str]]:
    return [(b.address, b.size, b.state) for s in made.layout() for b in s.blocks]


# streams


def test_a_block_used_elsewhere_waits_for_its_event():
    made = allocator(A, B)
    address = made.malloc(20 * MIB)
    made.record_stream(address, 5)
    made.free(address)
    assert (made.allocated_bytes, made.active_bytes) == (0, 20 * MIB)
    assert blocks(made) == [(A, 20 * MIB, "active_pending_free")]
    assert made.malloc(20 * MIB) == B
    made.complete_events(5)
    assert made.active_bytes == 40 * MIB  # noticed at the next request only
    assert made.malloc(20 * MIB) == A


def test_events_of_a_stream_come_true_in_order_and_all_streams_must():
    made = allocator(A)
    first, second = made.malloc(4 * MIB), made.malloc(4 * MIB)
    for stream in (5, 6):
        made.record_stream(first, stream)
    made.record_stream(second, 6)
    made.free(first)
    made.free(second)
    made.complete_events(6)
    made.malloc(512 * KIB)
    assert made.stats()["active_bytes.large_pool.current"] == 4 * MIB  # first still waits for stream 5
    made.complete_events()
    made.malloc(512 * KIB)
    assert made.stats()["active_bytes.large_pool.current"] == 0


def test_its_own_stream_is_no_use():
    made = allocator(A)
    address = made.malloc(512, stream=3)
    made.record_stream(address, 3)
    made.free(address)
    assert made.active_bytes == 0


def test_emptying_the_cache_waits_for_events():
    made = allocator(A)
    address = made.malloc(20 * MIB)
    made.record_stream(address, 5)
    made.free(address)
    made.empty_cache()
    assert made.reserved_bytes == 0


def test_a_trace_says_when_a_free_is_complete():
    made = allocator(A)
    first, second = made.malloc(4 * MIB), made.malloc(4 * MIB)
    made.free_requested(first)
    made.free(second)
    assert blocks(made)[0] == (A, 4 * MIB, "active_pending_free")
    made.complete(first)
    assert blocks(made) == [(A, 20 * MIB, "inactive")]


def test_completing_a_block_takes_it_out_of_every_queue():
    made = allocator(A, B)
    first, second = made.malloc(4 * MIB), made.malloc(4 * MIB)
    for address in (first, second):
        made.record_stream(address, 5)
        made.free(address)
    made.complete_events(5)
    made.complete(first)
    made.complete_events(5)
    made.malloc(512)
    assert made.stats()["active.large_pool.current"] == 0


# private pools


def test_a_private_pool_shares_nothing_and_returns_memory_when_it_has_no_owner():
    made = allocator(A, B, C)
    made.free(made.malloc(20 * MIB))
    made.begin_pool((0, 1))
    address = made.malloc(20 * MIB)
    assert address == B
    made.end_pool((0, 1))
    assert made.malloc(20 * MIB) == A
    made.free(address)
    made.empty_cache()
    assert made.reserved_bytes == 40 * MIB
    assert made.stats()["reserved_bytes_by_private_pools.0_1.all.current"] == 20 * MIB
    made.release_pool((0, 1))
    made.empty_cache()
    assert made.reserved_bytes == 20 * MIB
    assert made.layout()[0].pool == (0, 0)


def test_the_last_opened_pool_whose_streams_match_serves():
    made = allocator(A, B, C)
    made.begin_pool((0, 1))
    made.begin_pool((0, 2), streams=[7])
    made.malloc(512, stream=7)
    made.malloc(512, stream=8)
    assert [(s.pool, s.stream) for s in made.layout()] == [((0, 2), 7), ((0, 1), 8)]


def test_nothing_is_released_and_retried_while_a_pool_is_open():
    made = allocator(A, B, capacity=30 * MIB)
    made.free(made.malloc(20 * MIB))
    made.begin_pool((0, 1))
    with pytest.raises(DeviceOutOfMemory):
        made.malloc(20 * MIB)
    assert (made.num_alloc_retries, made.reserved_bytes) == (0, 20 * MIB)
    made.empty_cache()
    assert made.reserved_bytes == 20 * MIB
    made.end_pool((0, 1))
    assert made.malloc(20 * MIB, pool=(0, 1)) == B


def test_uses_from_during_a_capture_are_over_with_it():
    made = allocator(A, B)
    address = made.malloc(20 * MIB)
    made.begin_pool((0, 1))
    made.record_stream(address, 5)
    made.free(address)
    assert made.active_bytes == 20 * MIB
    made.end_pool((0, 1))
    assert made.malloc(20 * MIB) == A  # no event of stream 5 is waited for


def test_uses_from_before_a_capture_wait_for_their_event_after_it():
    made = allocator(A, B)
    address = made.malloc(20 * MIB)
    made.record_stream(address, 5)
    made.begin_pool((0, 1))
    made.free(address)
    made.end_pool((0, 1))
    assert made.malloc(20 * MIB) == B


def test_only_the_named_pool_is_emptied():
    made = allocator(A, B, C)
    for name in ((0, 1), (0, 2)):
        made.begin_pool(name)
        made.free(made.malloc(20 * MIB))
        made.end_pool(name)
        made.release_pool(name)
    made.free(made.malloc(20 * MIB))
    made.empty_cache((0, 2))
    assert [s.address for s in made.layout()] == [A, C]


def test_a_pool_opted_in_serves_the_default_pool_before_anything_is_released():
    made = allocator(A, B, capacity=50 * MIB)
    made.create_pool((0, 1))
    made.use_on_oom((0, 1))
    made.free(made.malloc(30 * MIB, pool=(0, 1)))
    made.free(made.malloc(20 * MIB))
    assert made.malloc(25 * MIB) == A
    assert made.reserved_bytes == 50 * MIB


def test_a_pool_may_refuse_to_split():
    made = allocator(A)
    made.create_pool((0, 1))
    made.no_split((0, 1))
    made.malloc(512, pool=(0, 1))
    assert made.allocated_bytes == 2 * MIB


def test_misuse_of_pools_is_refused():
    made = allocator(A)
    for act in (made.end_pool, made.release_pool):
        with pytest.raises(ReplayError):
            act((0, 1))
    made.begin_pool((0, 1))
    with pytest.raises(ReplayError, match="open already"):
        made.begin_pool((0, 1))
    made.end_pool((0, 1))
    made.release_pool((0, 1))
    with pytest.raises(ReplayError, match="no owner"):
        made.begin_pool((0, 1))
