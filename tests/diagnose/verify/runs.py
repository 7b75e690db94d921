"""Run directories for tests, written as a recorder writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from oomph.evidence.run.data import RunData
from oomph.evidence.run.model import (
    End,
    Fingerprint,
    Header,
    Note,
    OomRecord,
    PhaseRecord,
    Record,
    Run,
    RunEnd,
    StepRecord,
)
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from oomph.probe.model import Counters

GIB = 1 << 30
MIB = 1 << 20
CARD = 80 * GIB
#: What the context and other processes take of every card here.
BESIDE = 1 * GIB


@dataclass
class Rank:
    """A rank of a job whose every step needs the same, unless a test says otherwise. `step_bytes(step)` is what is
    allocated after a step; `peaks` are the peaks of the phases of a step."""

    rank: int = 0
    steps: int = 12
    outcome: str = "completed"
    loaded: int = 10 * GIB
    peaks: dict[Phase, int] = field(
        default_factory=lambda: {
            Phase.FORWARD: 30 * GIB,
            Phase.BACKWARD: 40 * GIB,
            Phase.OPTIMIZER: 35 * GIB,
        }
    )
    cached: int = 2 * GIB
    step_bytes: Callable[[int], int] = lambda _: 20 * GIB
    retries: Callable[[int], int] = lambda _: 0
    evaluation: int | None = None
    free: bool = True
    capacity: int | None = CARD
    oom: OomRecord | None = None
    caught_first: int | None = None
    missing: str = ""
    lost: int = 0
    world: int = 1
    batch: Callable[[int], dict[str, tuple[int, ...]]] = lambda _: {}
    clock: float = 100.0
    records: list[Record] = field(default_factory=list)

    def _tick(self, seconds: float = 1.0) -> float:
        self.clock += seconds
        return self.clock

    def counters(self, allocated: int, peak: int, retries: int = 0) -> Counters:
        """A reading: the peak is reserved with what is cached, and the rest of the card is free."""
        if self.missing:
            return Counters(missing=self.missing)
        reserved = peak + self.cached
        free = CARD - reserved - BESIDE if self.free else None
        return Counters(
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            active_bytes=allocated,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=reserved,
            retries=retries,
            free_bytes=free,
            total_bytes=CARD if self.free else None,
        )

    def phase(self, phase: Phase, step: int, allocated: int, peak: int, raised: str = "") -> None:
        """A phase that has ended."""
        clock = self._tick()
        counters = self.counters(allocated, peak, self.retries(step))
        batch = self.batch(step) if step >= 0 else {}
        self.records.append(
            PhaseRecord(
                phase, step, 1e9 + clock, clock, 1.5 if raised else 0.9, counters, batch=batch, raised=raised
            )
        )

    def written(self) -> list[Record]:
        """All its records."""
        self.records = []
        header = Header(
            1, self.rank, self.world, self.rank, 4_000_000 + self.rank, "elsewhere", 1e9, self.clock
        )
        self.records.append(
            msgspec.structs.replace(header, device="NVIDIA H100", capacity_bytes=self.capacity)
        )
        self.phase(Phase.LOAD, -1, self.loaded, self.loaded)
        if self.caught_first is not None:
            self._fail(self.caught_first)
        for step in range(self.steps):
            for phase, peak in self.peaks.items():
                self.phase(phase, step, self.step_bytes(step), peak)
            clock = self._tick()
            counters = self.counters(self.step_bytes(step), max(self.peaks.values()), self.retries(step))
            self.records.append(StepRecord(step, 1e9 + clock, clock, 3.0, counters, batch=self.batch(step)))
        if self.evaluation is not None:
            self.phase(Phase.EVAL, self.steps - 1, self.loaded, self.evaluation)
        if self.oom is not None:
            clock = self._tick()
            self.records.append(msgspec.structs.replace(self.oom, time=1e9 + clock, clock=clock))
        if self.outcome not in ("killed", "running"):
            clock = self._tick()
            self.records.append(End(self.outcome, 1e9 + clock, clock, records_lost=self.lost))
        return self.records

    def _fail(self, peak: int) -> None:
        """A batch that did not fit, which the script caught."""
        clock = self._tick()
        self.records.append(
            OomRecord(Phase.FORWARD, 0, 1e9 + clock, clock, "", GIB, self.counters(peak, peak), caught=True)
        )
        self.phase(Phase.FORWARD, 0, self.loaded, peak, raised="OutOfMemoryError")


def failure(phase: Phase, step: int, allocated: int, request: int = 2 * GIB) -> OomRecord:
    """A request that failed, with the card full."""
    counters = Counters(
        allocated_bytes=allocated,
        reserved_bytes=allocated,
        peak_allocated_bytes=allocated,
        peak_reserved_bytes=allocated,
        free_bytes=CARD - allocated - BESIDE,
        total_bytes=CARD,
        ooms=1,
    )
    return OomRecord(phase, step, 0.0, 0.0, "CUDA out of memory.", request, counters)


def write(
    folder: Path,
    ranks: Sequence[Rank],
    *,
    world: int | None = None,
    end: RunEnd | None = None,
    fingerprint: dict[str, str] | None = None,
    notes: Sequence[Note] = (),
) -> Path:
    """A run directory of these ranks."""
    size = world or len(ranks)
    (folder / "ranks").mkdir(parents=True)
    (folder / "fingerprint").mkdir()
    run = Run(1, "20261130-test", 1e9, ("python", "train.py"), world_size=size)
    (folder / "run.json").write_bytes(msgspec.json.encode(run))
    for rank in ranks:
        rank.world = size
        lines = [msgspec.json.encode(record) + b"\n" for record in [*rank.written(), *notes]]
        (folder / "ranks" / f"rank-{rank.rank:05d}.jsonl").write_bytes(b"".join(lines))
    if end is not None:
        (folder / "end.json").write_bytes(msgspec.json.encode(end))
    if fingerprint is not None:
        found = msgspec.json.encode(Fingerprint(1, 0, fingerprint))
        (folder / "fingerprint" / "rank-00000.json").write_bytes(found)
    return folder


def read(folder: Path, ranks: Sequence[Rank], **more) -> RunData:
    """The same, read. Processes of killed ranks are gone, those of running ones are alive."""
    running = {4_000_000 + rank.rank for rank in ranks if rank.outcome == "running"}
    return read_run(write(folder / "run", ranks, **more), alive=lambda header: header.pid in running)
