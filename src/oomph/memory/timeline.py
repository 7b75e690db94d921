"""The ordered allocator events of one device, as columns.

A snapshot of a long run has millions of events; as arrays they can be sorted, summed and searched at once. Times are
microseconds, addresses and sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oomph.memory.stacks import Stacks


class Kind(IntEnum):
    """What happened. The first seven are what an allocator does; the rest are marks in the record."""

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    OOM = 7
    SNAPSHOT = 8
    ANNOTATE = 9


#: Time and pool of an event for which none was recorded.
UNKNOWN = -1
DEFAULT_POOL = (0, 0)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Events in their order; every column has one entry per event.

    kind: a `Kind`. address: of the block or segment (0 for OOM and marks). size_bytes: what was requested for ALLOC
    and both frees, the rounded request for OOM, the segment's or mapped range's bytes for SEGMENT_*. time_us:
    UNKNOWN where not recorded. stream: as PyTorch numbers it. pool: index into `pools`, UNKNOWN where not recorded.
    free_bytes: for OOM events, by position, what the driver said was free on the device. frame_lists: the raw stack of
    each event, or None when stacks were not recorded at all.
    """

    kind: NDArray[np.int8]
    address: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    time_us: NDArray[np.int64]
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    pools: tuple[tuple[int, int], ...] = ()
    free_bytes: Mapping[int, int] = field(default_factory=dict)
    stacks: Stacks = field(default_factory=Stacks, repr=False)
    frame_lists: Sequence[Sequence[object] | None] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def stack_id(self) -> NDArray[np.int32]:
        """The number of each event's stack in `stacks`; -1 where none was recorded. Computed when first asked for."""
        if self.frame_lists is None:
            return np.full(len(self), -1, np.int32)
        return self.stacks.numbers(self.frame_lists)

    def stack_ids(self, positions: Sequence[int] | NDArray[np.intp]) -> NDArray[np.int32]:
        """The stack numbers of these events. Numbering all events of a long trace takes longer than loading them; what
        was alive at a moment, or every allocation, is a part of them."""
        if self.frame_lists is None:
            return np.full(len(positions), -1, np.int32)
        wanted = positions.tolist() if isinstance(positions, np.ndarray) else positions
        return self.stacks.numbers(list(map(self.frame_lists.__getitem__, wanted)))

    def stack_of(self, position: int) -> int:
        """The stack number of one event."""
        return int(self.stack_ids([position])[0])

    @cached_property
    def by_address(self) -> NDArray[np.intp]:
        """Where ALLOC, FREE_REQUESTED and FREE_COMPLETED stand, sorted by address; those of one address in order."""
        positions = self.positions(Kind.ALLOC, Kind.FREE_REQUESTED, Kind.FREE_COMPLETED)
        return positions[np.argsort(self.address[positions], kind="stable")]

    def first_of_each_address(self, *kinds: Kind) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The addresses that events of these kinds (of blocks) name, ascending, and where each is named first."""
        order = self.by_address
        if len(kinds) < 3:
            order = order[np.isin(self.kind[order], np.array(kinds, np.int8))]
        addresses = self.address[order]
        first = np.ones(len(order), bool)
        first[1:] = addresses[1:] != addresses[:-1]
        return addresses[first], order[first]

    @cached_property
    def reserved_change_bytes(self) -> NDArray[np.int64]:
        """By how much each event changes the reserved bytes."""
        sign = np.zeros(len(Kind), np.int64)
        sign[[Kind.SEGMENT_ALLOC, Kind.SEGMENT_MAP]] = 1
        sign[[Kind.SEGMENT_FREE, Kind.SEGMENT_UNMAP]] = -1
        return sign[self.kind] * self.size_bytes

    def pool_at(self, position: int) -> tuple[int, int]:
        """The pool that an event names; the default pool where it names none."""
        index = int(self.pool[position])
        return DEFAULT_POOL if index == UNKNOWN else self.pools[index]

    def part(self, part: slice) -> Timeline:
        """The events of a slice (of step 1), as a timeline of its own; columns and stacks are shared."""
        first, last, _ = part.indices(len(self))
        return replace(
            self,
            kind=self.kind[part],
            address=self.address[part],
            size_bytes=self.size_bytes[part],
            time_us=self.time_us[part],
            stream=self.stream[part],
            pool=self.pool[part],
            free_bytes={at - first: free for at, free in self.free_bytes.items() if first <= at < last},
            frame_lists=None if self.frame_lists is None else self.frame_lists[part],
        )

    def positions(self, *kinds: Kind) -> NDArray[np.intp]:
        """Where events of these kinds stand."""
        wanted = np.zeros(len(Kind), bool)
        wanted[list(kinds)] = True
        return np.flatnonzero(wanted[self.kind])


def empty_timeline() -> Timeline:
    """A timeline without events: a device that was not used, or a snapshot without history."""
    none = np.zeros(0, np.int64)
    return Timeline(none.astype(np.int8), none, none, none, none, none.astype(np.int32))
