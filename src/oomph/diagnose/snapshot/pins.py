"""Blocks that keep free memory in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from oomph.diagnose.snapshot.model import Pin
from oomph.diagnose.snapshot.places import place_of
from oomph.memory.allocator.layout import INACTIVE, SegmentState
from oomph.memory.categories import CATEGORIES
from oomph.memory.holes import Hole

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: So many are listed.
MOST_PINS = 12


def pins_of(
    analysis: Analysis, position: int, layout: Sequence[SegmentState], own: Sequence[Hole]
) -> tuple[Pin, ...]:
    """The blocks between or beside the largest of the holes `own`, those first whose end would make the largest one.
    `layout` is that of `position`."""
    before = {hole.address + hole.size: hole.size for hole in own}
    after = {hole.address: hole.size for hole in own}
    found: list[tuple[int, int, int]] = []
    for segment in layout:
        last = segment.address + segment.size  # what lies behind it belongs to another segment
        for block in segment.blocks:
            if block.state == INACTIVE:
                continue
            end = block.address + block.size
            left = before.get(block.address, 0) if block.address > segment.address else 0
            right = after.get(end, 0) if end < last else 0
            if left or right:
                found.append((left + block.size + right, block.address, block.size))
    found.sort(key=lambda one: (-one[0], one[1]))
    chosen = found[:MOST_PINS]
    rows = _rows(analysis, position, [address for _, address, _ in chosen])
    return tuple(_pin(analysis, rows.get(address), size, freed) for freed, address, size in chosen)


def _rows(analysis: Analysis, position: int, addresses: Sequence[int]) -> dict[int, int]:
    """The row of the block that was alive at each address."""
    alive = analysis.lifetimes.alive_at(position)
    there = analysis.lifetimes.address[alive]
    rows = alive[np.isin(there, np.array(addresses, np.int64))]
    return dict(zip(analysis.lifetimes.address[rows].tolist(), rows.tolist(), strict=True))


def _pin(analysis: Analysis, row: int | None, size: int, freed: int) -> Pin:
    stack = int(analysis.block_stack[row]) if row is not None else -1
    frames = analysis.frames(stack)
    category = CATEGORIES[int(analysis.block_category[row])] if row is not None else CATEGORIES[-1]
    return Pin(bytes=size, hole_bytes=freed, frames=frames, place=place_of(frames), category=category)
