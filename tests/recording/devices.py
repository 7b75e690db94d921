"""A device for tests of the recorder: numbers that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from oomph.probe.model import Counters

MIB = 1 << 20


class FakeDevice:
    """Counts what it is told (`take`, `give`). `observers` are called by `fail`."""

    kind, index, name = "cuda", 0, "Fake 80GB"
    limits: tuple[str, ...] = ()

    def __init__(self, capacity_bytes: int = 80 << 30) -> None:
        self.capacity_bytes = capacity_bytes
        self.allocated = self.peak = self.reserved = 0
        self.begun = self.reads = self.wholes = 0
        self.ooms = 0
        self.observers: list[Callable[[int, int, int, int], None]] = []
        self.closed = False
        self.broken: Exception | None = None
        self.history: int | None = None

    def take(self, size: int) -> None:
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, self.allocated)

    def give(self, size: int) -> None:
        self.allocated -= size

    def fail(self, size: int) -> None:
        self.ooms += 1
        for observer in self.observers:
            observer(0, size, self.capacity_bytes, self.capacity_bytes - self.reserved)

    def begin(self) -> None:
        self.begun += 1
        self.peak = self.allocated

    def read(self) -> Counters:
        self.reads += 1
        if self.broken is not None:
            raise self.broken
        return Counters(
            allocated_bytes=self.allocated,
            reserved_bytes=self.reserved,
            active_bytes=self.allocated,
            requested_bytes=self.allocated,
            peak_allocated_bytes=self.peak,
            peak_reserved_bytes=self.reserved,
            ooms=self.ooms,
        )

    def whole(self) -> Counters:
        self.wholes += 1
        return msgspec.structs.replace(
            self.read(),
            total_bytes=self.capacity_bytes,
            free_bytes=self.capacity_bytes - self.reserved,
            outside_bytes=0,
            other_processes_bytes=0,
        )

    def stats(self) -> dict[str, Any]:
        return {"allocated_bytes.all.current": self.allocated}

    def summary(self) -> str:
        return "a summary"

    def record_history(self, max_entries: int) -> str:
        self.history = max_entries
        return ""

    def dump_snapshot(self, path: Path) -> str:
        path.write_bytes(b"snapshot")
        return ""

    def on_out_of_memory(self, observer: Callable[[int, int, int, int], None]) -> None:
        self.observers.append(observer)

    def synchronize(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
