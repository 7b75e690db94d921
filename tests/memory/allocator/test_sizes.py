"""Rounding and segment sizes, with the arithmetic written out."""

from __future__ import annotations

import pytest

from oomph.memory.allocator.sizes import bucket, round_size, segment_size

KIB, MIB, GIB = 2**10, 2**20, 2**30


@pytest.mark.parametrize(
    ("asked", "rounded"),
    [
        (1, 512),
        (511, 512),
        (512, 512),
        (513, 1024),  # 2 * 512
        (1536, 1536),
        (1537, 2048),
        (1_000_000, 1_000_448),  # ceil(1953.125) = 1954; 1954 * 512
        (MIB, MIB),
        (MIB + 1, MIB + 512),
    ],
)
def test_multiples_of_512(asked, rounded):
    assert round_size(asked) == rounded


@pytest.mark.parametrize(
    ("rounded", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),  # no longer packed: already a multiple of 2 MiB
        (10 * MIB + 512, 12 * MIB),
        (11 * MIB, 12 * MIB),
        (20 * MIB, 20 * MIB),
        (GIB + 1, GIB + 2 * MIB),
    ],
)
def test_segments(rounded, segment):
    assert segment_size(rounded) == segment


def test_only_packed_requests_feel_the_large_segment_size():
    assert segment_size(MIB, 64 * MIB) == 2 * MIB
    assert segment_size(2 * MIB, 64 * MIB) == 64 * MIB
    assert segment_size(10 * MIB, 64 * MIB) == 10 * MIB


@pytest.mark.parametrize(
    ("size", "place"),
    [
        (1, 0),
        (MIB - 1, 0),
        (MIB, 0),
        (2 * MIB - 1, 0),
        (2 * MIB, 1),
        (GIB, 10),
        (32 * GIB, 15),
        (64 * GIB, 15),
        (2**45, 15),
    ],
)
def test_buckets_are_powers_of_two_from_one_mebibyte(size, place):
    assert bucket(size) == place


@pytest.mark.parametrize(
    ("asked", "divisions", "rounded"),
    [
        # 1200 MiB lies between 1024 and 2048; a quarter of 1024 is 256: 1024 + 256 = 1280
        (1200 * MIB, 4, 1280 * MIB),
        (1280 * MIB, 4, 1280 * MIB),
        (1281 * MIB, 4, 1536 * MIB),
        (1024 * MIB, 4, 1024 * MIB),  # a power of two stays
        (1793 * MIB, 4, 2048 * MIB),
        (1200 * MIB, 8, 1280 * MIB),  # an eighth is 128: 1024 + 2 * 128
        (5000, 2, 6144),  # 4096 + 2048
        (2048, 4, 2048),  # not above 512 * 4: plain rounding
        (2049, 4, 2560),  # above it: 2048 + 512
        (1025, 2, 1536),
        (1024, 2, 1024),
    ],
)
def test_parts_of_a_power_of_two(asked, divisions, rounded):
    assert round_size(asked, (divisions,) * 16) == rounded


def test_each_bucket_has_its_own_divisions():
    divisions = (0, 4) + (0,) * 14
    assert round_size(MIB + 1, divisions) == MIB + 512  # bucket 0: off
    assert round_size(2 * MIB + 1, divisions) == 2 * MIB + MIB // 2  # bucket 1: a quarter of 2 MiB
    assert round_size(4 * MIB + 1, divisions) == 4 * MIB + 512


def test_one_division_was_the_next_power_of_two_before_2_2():
    assert round_size(3000, (1,) * 16) == 3072
    assert round_size(3000, (1,) * 16, least_divisions=1) == 4096


def test_a_step_below_one_byte_gives_the_next_power_of_two():
    # 2**22 divisions of 2**31: 512 * 2**22 = 2**31 < 2**31 + 1; the step is 2**31 / 2**22 = 512
    assert round_size(2**31 + 1, (2**22,) * 16) == 2**31 + 512
