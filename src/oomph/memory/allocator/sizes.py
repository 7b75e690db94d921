"""Sizes: what a request is rounded to, and how large a segment is asked of the driver for it.

Source of the constants and rules: c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp (the same from
PyTorch 2.0 to 2.14, apart from the two noted differences).
"""

from __future__ import annotations

from oomph.units import MIB

MIN_BLOCK_BYTES = 512
#: Requests up to this size, once rounded, live in the small pool.
SMALL_BYTES = 1 * MIB
SMALL_SEGMENT_BYTES = 2 * MIB
#: Default of `large_segment_size_mb` (a fixed constant before PyTorch 2.13).
LARGE_SEGMENT_BYTES = 20 * MIB
#: From here on a large request gets a segment of its own size.
MIN_LARGE_BYTES = 10 * MIB
LARGE_ROUNDING_BYTES = 2 * MIB
#: Stands for "no limit" where a number is compared; far above any device, and still a machine word.
UNLIMITED_BYTES = 1 << 61
#: `roundup_power2_divisions` has one entry for each power of two: 1 MiB, 2 MiB, ... 32 GiB.
DIVISION_BUCKETS = 16
_FIRST_BUCKET_BIT = 20


def ceil_to(size_bytes: int, step_bytes: int) -> int:
    """`size_bytes` rounded up to a multiple of `step_bytes`."""
    return -(-size_bytes // step_bytes) * step_bytes


def bucket(size_bytes: int) -> int:
    """Which entry of `roundup_power2_divisions` is for this size: floor(log2(size)) - 20, kept within 0 to 15."""
    place = size_bytes.bit_length() - 1 - _FIRST_BUCKET_BIT
    return min(max(place, 0), DIVISION_BUCKETS - 1)


def round_power_of_two(size_bytes: int, divisions: int) -> int:
    """The next multiple of (power of two below) / divisions; a power of two stays what it is.

    1200 with 4 divisions: 1024 / 4 = 256, so 1280. Where a step would be less than a byte, the next power of two.
    """
    if size_bytes & (size_bytes - 1) == 0:
        return size_bytes
    floor = 1 << (size_bytes.bit_length() - 1)
    step = floor >> (divisions.bit_length() - 1)
    if step == 0:
        return floor << 1
    return ceil_to(size_bytes, step)


def round_size(size_bytes: int, divisions: tuple[int, ...] = (), least_divisions: int = 2) -> int:
    """The block size for a request: at least 512 bytes, a multiple of 512, or of a part of a power of two.

    `divisions` has 16 entries (see `bucket`) or none. An entry counts from `least_divisions` on: PyTorch 2.0 and 2.1
    tested `> 0`, later `> 1`.
    """
    if size_bytes < MIN_BLOCK_BYTES:
        return MIN_BLOCK_BYTES
    if divisions:
        parts = divisions[bucket(size_bytes)]
        if parts >= least_divisions and size_bytes > MIN_BLOCK_BYTES * parts:
            return round_power_of_two(size_bytes, parts)
    return (size_bytes + 511) // 512 * 512


def segment_size(rounded_bytes: int, large_segment_bytes: int = LARGE_SEGMENT_BYTES) -> int:
    """What is asked of the driver when no cached block fits: 2 MiB, a large segment, or the size in 2 MiB steps."""
    if rounded_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded_bytes < MIN_LARGE_BYTES:
        return large_segment_bytes
    return ceil_to(rounded_bytes, LARGE_ROUNDING_BYTES)
