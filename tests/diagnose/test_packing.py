"""The model allocator against the rules that it stands for."""

from __future__ import annotations

from tests.diagnose.packing import GIB, KIB, MIB, Allocator, Block, Refusal, rounded, segment_size


def got(allocator: Allocator, size: int) -> Block:
    block = allocator.malloc(size)
    assert isinstance(block, Block)
    return block


def test_requests_are_rounded_to_512_bytes() -> None:
    assert [rounded(size) for size in (1, 512, 513, MIB + 1)] == [512, 512, 1024, MIB + 512]


def test_segments() -> None:
    sizes = {MIB: 2 * MIB, MIB + 512: 20 * MIB, 3 * MIB: 20 * MIB, 10 * MIB: 10 * MIB, 11 * MIB: 12 * MIB}
    assert {size: segment_size(size) for size in sizes} == sizes


def test_small_requests_share_a_segment_of_two_mebibytes() -> None:
    allocator = Allocator(GIB)
    for _ in range(4):
        got(allocator, 512 * KIB)
    assert (allocator.reserved, allocator.allocated) == (2 * MIB, 2 * MIB)
    got(allocator, 512)
    assert allocator.reserved == 4 * MIB


def test_a_rest_of_one_mebibyte_stays_with_its_block() -> None:
    allocator = Allocator(GIB)
    got(allocator, 11 * MIB)  # of a segment of 12 MiB
    assert allocator.allocated == 12 * MIB


def test_the_smallest_block_that_fits_is_taken_and_split() -> None:
    allocator = Allocator(GIB)
    large, small = got(allocator, 100 * MIB), got(allocator, 40 * MIB)
    keep = got(allocator, 20 * MIB)
    allocator.free(large)
    allocator.free(small)
    taken = got(allocator, 30 * MIB)
    assert taken.address == small.address
    assert allocator.reserved == 160 * MIB
    assert keep.address not in (large.address, small.address)


def test_free_neighbours_merge() -> None:
    allocator = Allocator(GIB)
    whole = got(allocator, 100 * MIB)
    allocator.free(whole)
    parts = [got(allocator, 25 * MIB) for _ in range(4)]
    assert allocator.reserved == 100 * MIB
    for part in (parts[1], parts[3], parts[2], parts[0]):
        allocator.free(part)
    assert got(allocator, 100 * MIB).address == whole.address
    assert allocator.reserved == 100 * MIB


def test_segments_that_are_free_go_back_before_a_request_fails() -> None:
    allocator = Allocator(200 * MIB)
    allocator.free(got(allocator, 150 * MIB))
    got(allocator, 190 * MIB)
    assert allocator.reserved == 190 * MIB


def test_a_segment_in_use_cannot_go_back() -> None:
    allocator = Allocator(200 * MIB)
    first = got(allocator, 150 * MIB)
    allocator.free(first)
    got(allocator, 20 * MIB)  # now part of the segment of 150 MiB
    refusal = allocator.malloc(140 * MIB)
    assert isinstance(refusal, Refusal)
    assert (refusal.reserved, refusal.allocated, refusal.cached) == (150 * MIB, 20 * MIB, 130 * MIB)
    assert refusal.free == 50 * MIB
    assert refusal.would_fit_packed  # 20 + 140 <= 200
    assert refusal.ratio == 130 / 150
