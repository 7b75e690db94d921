"""Snapshots whose content is written out block by block, so that every difference is arithmetic."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.evidence.snapshot import from_bytes
from oomph.memory.categories import CATEGORIES, Category
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, block, segment, snapshot

#: (bytes, frames as (function, file, line), what it is)
Block = tuple[int, Sequence[tuple[str, str, int]], Category]


def frames_of(frames: Sequence[tuple[str, str, int]]) -> list[dict[str, Any]]:
    return [{"name": name, "filename": file, "line": line} for name, file, line in frames]


def analysis(
    blocks: Sequence[Block], source: str = "run.pickle", free: int = 2 * MIB, device: int = 0, **top: Any
) -> Analysis:
    """A snapshot without history of one segment that holds the blocks and then `free` bytes. What each block is is
    given, not told by its stack."""
    records, here = [], BASE
    for size, frames, _ in blocks:
        records.append(block(here, size, frames=frames_of(frames)))
        here += size
    records.append(block(here, free, "inactive"))
    whole = segment(blocks=records, segment_type="large", device=device)
    traces: list[list[Any]] = [[] for _ in range(device + 1)]
    made = Analysis(from_bytes(pickle.dumps(snapshot([whole], traces, **top)), source), device)
    with_category(made, [category for _, _, category in blocks])
    return made


def with_category(made: Analysis, categories: Sequence[Category]) -> None:
    """Rows are in the order of addresses where all blocks are from before the trace."""
    numbers = np.array([CATEGORIES.index(category) for category in categories], np.int8)
    made.__dict__["_categories"] = (numbers, np.zeros_like(numbers), np.zeros_like(numbers))
