"""A recipe's events through the simulated allocator: the same Timeline that snapshots and traces have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.recipe.instantiate import Events
from oomph.memory.timeline import UNKNOWN, Kind, Timeline

_KINDS = {
    arena.SEGMENT_ALLOC: Kind.SEGMENT_ALLOC,
    arena.SEGMENT_FREE: Kind.SEGMENT_FREE,
    arena.SEGMENT_MAP: Kind.SEGMENT_MAP,
    arena.SEGMENT_UNMAP: Kind.SEGMENT_UNMAP,
    arena.OOM: Kind.OOM,
}


@dataclass(frozen=True)
class Played:
    """A timeline and, for each of its events, the index of the recipe's event that it belongs to (`cause`).
    `failed_at` is the event whose request the device could not hold; the timeline ends there."""

    timeline: Timeline
    cause: list[int]
    failed_at: int | None


def play(events: Events, allocator: CachingAllocator) -> Played:
    """Every event in order on an allocator that records (`record=True`), all on one stream."""
    columns = _Columns(allocator)
    addresses: dict[int, int] = {}
    failed = None
    for index, (number, size) in enumerate(zip(events.number, events.size, strict=True)):
        if number < 0:
            address = addresses.pop(~number)
            allocator.free(address)
            columns.add(index, Kind.FREE_REQUESTED, address, size)
            columns.add(index, Kind.FREE_COMPLETED, address, size)
            continue
        try:
            addresses[number] = allocator.malloc(size)
        except DeviceOutOfMemory:
            columns.drain(index)
            failed = index
            break
        columns.drain(index)
        columns.add(index, Kind.ALLOC, addresses[number], size)
    return Played(columns.timeline(), columns.cause, failed)


class _Columns:
    def __init__(self, allocator: CachingAllocator) -> None:
        self.allocator = allocator
        self.rows: list[tuple[int, int, int]] = []
        self.cause: list[int] = []
        self.free_bytes: dict[int, int] = {}

    def add(self, cause: int, kind: int, address: int, size: int) -> None:
        self.rows.append((kind, address, size))
        self.cause.append(cause)

    def drain(self, cause: int) -> None:
        """What the allocator asked of the driver."""
        for kind, address, size, _ in self.allocator.events:
            if kind == arena.OOM:
                self.free_bytes[len(self.rows)] = address
                address = 0
            self.add(cause, _KINDS[kind], address, size)
        self.allocator.events.clear()

    def timeline(self) -> Timeline:
        table = np.array(self.rows, np.int64).reshape(-1, 3)
        count = len(table)
        return Timeline(
            kind=table[:, 0].astype(np.int8),
            address=table[:, 1],
            size_bytes=table[:, 2],
            time_us=np.full(count, UNKNOWN, np.int64),
            stream=np.zeros(count, np.int64),
            pool=np.full(count, UNKNOWN, np.int32),
            free_bytes=self.free_bytes,
        )
