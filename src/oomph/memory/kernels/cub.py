"""The temporary storage that CUB's device algorithms ask for.

Source: NVIDIA CCCL, cub/device/dispatch (dispatch_radix_sort.cuh, dispatch_scan.cuh, dispatch_select_if.cuh,
dispatch_reduce.cuh) and cub/util_device.cuh (alias_temporaries: parts rounded to 256 bytes, 255 bytes for their
alignment). Where tile sizes differ between CUB's releases the smaller one is used here, so that the storage, at most
some hundredths of the data, is not too small.
"""

from __future__ import annotations

from oomph.memory.kernels.arithmetic import Processors, div_up

_DIGITS = 256  # one pass sorts by 8 bits
_PADDING = 32  # descriptors before the first tile


def _storage(*parts: int) -> int:
    """The parts in one block; a block of nothing is asked for as 1 byte."""
    used = sum(div_up(part, 256) * 256 for part in parts)
    return used + 255 if used else 1


def sort_pairs(count: int, key_bytes: int, value_bytes: int, bits: int) -> int:
    """`DeviceRadixSort::SortPairs` of `count` pairs by `bits` bits of the key, with separate input and output: one tile
    needs nothing; more need a second place for keys and values (between passes), digit counts and a look-back table.
    """
    widest = max(key_bytes, value_bytes, 4)
    if count <= 256 * max(1, 19 * 4 // widest):
        return _storage()
    tile = 384 * max(1, 21 * 4 // widest)
    portion = (2**28 - 1) // tile * tile
    portions, passes = div_up(count, portion), div_up(bits, 8)
    blocks = div_up(min(count, portion), tile)
    extra = count if passes > 1 else 0
    return _storage(
        portions * passes * _DIGITS * 8,
        blocks * _DIGITS * 4,
        extra * key_bytes,
        extra * value_bytes,
        portions * passes * 4,
    )


def scan(count: int, item_bytes: int) -> int:
    """`DeviceScan`: a descriptor per tile, twice as wide as an item of up to 8 bytes."""
    tile = 128 * max(1, 15 * 4 // max(4, item_bytes))
    return _storage((div_up(count, tile) + _PADDING) * 2 * max(4, item_bytes))


def select(count: int) -> int:
    """`DeviceSelect` with 32-bit counts: 8 bytes per tile of at least 128 x 10 items."""
    return _storage((div_up(count, 1280) + _PADDING) * 8)


def reduce(count: int, gpu: Processors) -> int:
    """`DeviceReduce` into 4 bytes: one tile of 256 x 16 needs nothing; more, a partial result of as many blocks as the
    GPU can hold (256 threads each), five times over."""
    if count <= 4096:
        return _storage()
    return _storage(4 * gpu.multiprocessors * (gpu.threads_per_multiprocessor // 256) * 5)


def bits_of(largest: int) -> int:
    """How many bits a key of at most `largest` has (at::cuda::cub::get_num_bits)."""
    return max(1, largest.bit_length())
