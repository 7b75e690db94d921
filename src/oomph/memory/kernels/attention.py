"""What the kernels of scaled dot product attention allocate beside their results.

Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd, mha_bwd, set_params_splitkv,
num_splits_heuristic) for flash attention; attention_backward.cu, mem_eff_attention/kernel_backward.h (workspace_size)
and kernels/cutlassB.h (tiles) for memory-efficient attention.
"""

from __future__ import annotations

from oomph.memory.kernels.arithmetic import div_up


def round_up(value: int, to: int) -> int:
    """The least multiple of `to` that is at least `value`."""
    return div_up(value, to) * to


def rounded_head(size: int) -> int:
    """The head size that flash attention's kernels compute with."""
    return round_up(size, 32) if size <= 192 else 256


def flash_splits(blocks: int, keys: int, size: int, multiprocessors: int) -> int:
    """Into how many parts flash attention splits the keys so that the GPU is busy: the fewest that come within 15 % of
    the best. `blocks` is batch x heads x blocks of 64 rows."""
    processors = 2 * multiprocessors
    if blocks >= 0.8 * processors:
        return 1
    columns = div_up(keys, 256 if size <= 64 else 128 if size <= 128 else 64)
    most = min(128, processors, columns)
    useful = {
        splits: blocks * splits / processors / div_up(blocks * splits, processors)
        for splits in range(1, most + 1)
        if splits == 1 or div_up(columns, splits) != div_up(columns, splits - 1)
    }
    best = max(useful.values())
    return next(splits for splits, waves in useful.items() if waves >= 0.85 * best)


def efficient_workspace_bytes(
    blocks: int,
    rows: int,
    keys: int,
    size: int,
    wide: int,
    half: bool,
    capability: tuple[int, int],
    dropout: bool,
) -> int:
    """The float32 sums of memory-efficient attention's backward: the query's gradient in tiles; those of keys and
    values too where a tile does not hold a head. `blocks` is batch x heads, `wide` the head size of the values."""
    high, low, held = _tile(capability, max(size, wide), half, dropout)
    elements = div_up(rows, high) * div_up(size, low) * (high * low + 4)
    if half and not held:
        part = low * (div_up(size, high) + div_up(wide, high)) * high
        elements += part * _key_splits(keys, low, blocks)
    return 4 * blocks * div_up(elements, 4) * 4


def _key_splits(keys: int, low: int, blocks: int) -> int:
    """Into how many parts the keys are split where each part has sums of its own: fewer with more heads and samples."""
    splits = 1 if blocks >= 256 and keys <= 2 * low else div_up(keys, low)
    return max(1, min(splits, 200 // blocks))


def _tile(capability: tuple[int, int], widest: int, half: bool, dropout: bool) -> tuple[int, int, bool]:
    """Rows and columns of a tile, and whether it holds a whole head: the first kernel in cutlassB.h that takes the
    head size and fits the GPU's shared memory."""
    small = capability in ((8, 6), (8, 9)) or capability >= (12, 0)
    if widest <= 64:
        return 64, 64, True
    if capability < (8, 0):
        return (128, 64, True) if half and widest <= 128 and capability >= (7, 0) else (64, 64, False)
    if half and widest <= 96 and capability in ((8, 6), (8, 9)) and not dropout:
        return 128, 64, True
    if half and widest <= 128:
        return (64, 64, False) if small else (128, 128, True)
    return (64, 64, False) if small else (128, 64, False)
