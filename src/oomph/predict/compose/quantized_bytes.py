"""Bytes of quantised weights, and of what they are read with."""

from __future__ import annotations


def packed_bytes(numel: int, kind: str) -> int:
    """Bytes of a quantised weight itself: half a byte (nf4, fp4, gptq4) or a byte (int8) per element."""
    return numel if kind == "int8" else numel // 2


def constant_bytes(numel: int, kind: str, double: bool, block: int, rows: int = 0) -> int:
    """Bytes of what is needed to read a quantised weight, which no strategy shards.

    nf4, fp4: one fp32 absmax per block; double: the absmax as one byte, with an fp32 per 256 of them and an fp32 offset
    (bitsandbytes functional.py, quantize_4bit with compress_statistics). int8: an fp32 per row. gptq4: int4 in groups
    (of 128, or of `block` where that is more) with fp16 scales, 4-bit zeros and a group index (0.5195 bytes per weight
    for square matrices with the weight itself: AutoGPTQ's qlinear).
    """
    if kind == "int8":
        return 4 * rows
    if kind == "gptq4":
        group = max(128, block)
        return numel // group * 2 + numel // (2 * group)
    blocks = -(-numel // block)
    return blocks + 4 * -(-blocks // 256) + 4 if double else 4 * blocks
