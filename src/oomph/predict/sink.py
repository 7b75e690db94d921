"""Where the composed step sends its allocations: either added up (fast) or kept as events (for the allocator).

The code that composes a step (`predict/compose`, `predict/sharding`, `predict/optimizers`) is written once against
`Sink`; `PeakSink` gives allocated peaks by arithmetic, `EventSink` the timeline that the simulated allocator plays.
Sizes are bytes as requested; PyTorch rounds each request up to 512 bytes, which both sinks do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from oomph.memory.categories import Category
from oomph.phases import Phase

_GRAIN = 512


def rounded(size_bytes: int) -> int:
    """A request as the allocator books it: the next multiple of 512 bytes (CUDACachingAllocator.cpp, kMinBlockSize)."""
    return -(-size_bytes // _GRAIN) * _GRAIN


@dataclass(frozen=True, eq=False)
class Template:
    """What a piece of code does to memory each time it runs, by block numbers of its own.

    events: `n >= 0` allocates block n, `~n` frees it. sizes: bytes of block n, rounded. labels: what block n is for
    (category, name). A block allocated and not freed is left to whoever plays the template; a negative event for a
    block that the template did not allocate frees one that was handed in (numbers from `first_own` up are its own).
    peak: the most above the level at the start; net: the change from start to end.
    """

    events: Sequence[int]
    sizes: Sequence[int]
    labels: Sequence[tuple[Category, str]]
    first_own: int
    peak: int
    net: int
    peak_event: int
    levels: dict[str, int] = field(default_factory=dict)


class Sink(Protocol):
    """Takes allocations in order."""

    def phase(self, phase: Phase, where: str = "") -> None:
        """All that follows belongs to this phase; `where` is a place for people ("backward of block 31")."""
        ...

    def alloc(self, size_bytes: int, category: Category, name: str, stream: int = 0) -> int:
        """A new block; returns its handle. A size of 0 gives a handle too."""
        ...

    def free(self, handle: int) -> None:
        """Frees a block. Freeing it twice is an error (ValueError)."""
        ...

    def play(self, template: Template, handed: Sequence[int] = ()) -> list[int]:
        """Runs a template. `handed` are the handles of blocks 0..first_own-1. Returns the handle of each block of the
        template, in order (those freed inside are -1)."""
        ...
