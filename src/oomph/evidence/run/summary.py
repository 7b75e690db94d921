"""Sums over a rank's records, one record at a time: nothing here grows with the length of the run."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Generic, TypeVar

from oomph.evidence.run.data import Growth, Peaks, PhaseSummary
from oomph.evidence.run.model import PhaseRecord, StepRecord
from oomph.phases import Phase

T = TypeVar("T")

#: Steps that growth is computed from; of more every second is dropped, again and again.
_MOST_POINTS = 2_048
#: Fewer steps show no growth: caches fill, and lazily made state comes to be, in the first ones.
_LEAST_STEPS = 6


def larger(a: int | None, b: int | None) -> int | None:
    """The larger of what is known."""
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


def smaller(a: int | None, b: int | None) -> int | None:
    """The smaller of what is known."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


@dataclass
class PeakSum:
    """`Peaks` in the making."""

    records: int = 0
    seconds: float = 0.0
    allocated: int = 0
    reserved: int = 0
    active: int = 0
    growth: int = 0
    step: int = -1
    retries: int = 0
    ooms: int = 0
    free: int | None = None
    outside: int | None = None
    others: int | None = None
    rss: int | None = None
    pinned: int | None = None
    batch: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def add(self, record: PhaseRecord) -> bool:
        """Takes a record in; whether its peak is a new one."""
        counters, host = record.counters, record.host
        peak = max(counters.peak_allocated_bytes, counters.allocated_bytes)
        new = not self.records or peak > self.allocated
        if new:
            self.allocated, self.step, self.batch = peak, record.step, record.batch
        self.records += record.times
        self.seconds += record.seconds
        self.reserved = max(self.reserved, counters.peak_reserved_bytes, counters.reserved_bytes)
        self.active = max(self.active, counters.active_bytes)
        self.growth = max(self.growth, peak - record.start_allocated_bytes)
        self.retries = max(self.retries, counters.retries)
        self.ooms = max(self.ooms, counters.ooms)
        self.free = smaller(self.free, counters.free_bytes)
        self.outside = larger(self.outside, counters.outside_bytes)
        self.others = larger(self.others, counters.other_processes_bytes)
        if host is not None:
            self.rss = larger(self.rss, host.rss_bytes)
            self.pinned = larger(self.pinned, host.pinned_bytes)
        return new

    def peaks(self) -> Peaks:
        """What was summed up."""
        return Peaks(
            records=self.records,
            seconds=self.seconds,
            allocated_bytes=self.allocated,
            reserved_bytes=self.reserved,
            active_bytes=self.active,
            growth_bytes=self.growth,
            step=self.step,
            retries=self.retries,
            ooms=self.ooms,
            free_bytes=self.free,
            outside_bytes=self.outside,
            other_processes_bytes=self.others,
            rss_bytes=self.rss,
            pinned_bytes=self.pinned,
            batch=self.batch,
        )


class PhaseSums:
    """`PhaseSummary` of each phase in the making."""

    def __init__(self) -> None:
        self._sums: dict[Phase, tuple[PeakSum, PeakSum]] = {}

    def add(self, record: PhaseRecord) -> bool:
        """Takes a record in; whether its peak is a new one of its phase."""
        pair = self._sums.get(record.phase)
        if pair is None:
            pair = self._sums[record.phase] = (PeakSum(), PeakSum())
        return pair[record.step > 0].add(record)

    def summaries(self) -> dict[Phase, PhaseSummary]:
        """In the order in which a job passes through the phases."""
        return {
            phase: PhaseSummary(phase, *(one.peaks() if one.records else None for one in self._sums[phase]))
            for phase in Phase
            if phase in self._sums
        }


class GrowthSum:
    """`Growth` in the making."""

    def __init__(self) -> None:
        self._points: list[tuple[int, int, int, int | None]] = []
        self._stride = 1
        self._seen = 0

    def add(self, record: StepRecord, rss_bytes: int | None) -> None:
        """Takes the end of a step in; the first two are left out."""
        if record.step < 2:
            return
        if self._seen % self._stride == 0:
            counters = record.counters
            self._points.append((record.step, counters.allocated_bytes, counters.reserved_bytes, rss_bytes))
            if len(self._points) > _MOST_POINTS:
                del self._points[1::2]
                self._stride *= 2
        self._seen += 1

    def growth(self) -> Growth | None:
        """None for too few steps, or steps that do not count up."""
        points = self._points
        third = len(points) // 3
        if self._seen < _LEAST_STEPS or third < 2:
            return None
        begin, end = points[:third], points[-third:]
        apart = median(p[0] for p in end) - median(p[0] for p in begin)
        if apart <= 0:
            return None

        def per_step(column: int) -> float | None:
            first = [p[column] for p in begin if p[column] is not None]
            last = [p[column] for p in end if p[column] is not None]
            if not first or not last:
                return None
            return float(median(last) - median(first)) / apart  # type: ignore[type-var,operator] # no None is left

        return Growth(
            steps=self._seen,
            allocated_per_step=per_step(1) or 0.0,
            reserved_per_step=per_step(2) or 0.0,
            rss_per_step=per_step(3),
            steady=min(p[1] for p in end) > max(p[1] for p in begin),
        )


class Kept(Generic[T]):
    """The first, the last, and the remarkable ones of very many, each with the line that it stands on."""

    def __init__(self, most: int) -> None:
        self._head_size = self._remarkable_size = max(1, most // 4)
        self._head: list[tuple[int, int, T]] = []
        self._remarkable: list[tuple[int, int, T]] = []
        self._tail: deque[tuple[int, int, T]] = deque(maxlen=max(1, most // 2))
        self._count = 0

    def add(self, item: T, line: int = 0, *, remarkable: bool = False) -> None:
        """Takes one in."""
        entry = (self._count, line, item)
        if len(self._head) < self._head_size:
            self._head.append(entry)
        else:
            self._tail.append(entry)
            if remarkable and len(self._remarkable) < self._remarkable_size:
                self._remarkable.append(entry)
        self._count += 1

    def with_lines(self) -> list[tuple[int, T]]:
        """(line, item) in their order."""
        oldest = self._tail[0][0] if self._tail else self._count
        between = [entry for entry in self._remarkable if entry[0] < oldest]
        return [(line, item) for _, line, item in (*self._head, *between, *self._tail)]

    def items(self) -> tuple[T, ...]:
        """In their order."""
        return tuple(item for _, item in self.with_lines())

    @property
    def last(self) -> T | None:
        """The one that was taken in last."""
        if self._tail:
            return self._tail[-1][2]
        return self._head[-1][2] if self._head else None

    @property
    def left_out(self) -> int:
        return self._count - len(self.with_lines())
