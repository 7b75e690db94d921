"""Run directories for tests, written as the contract in evidence/run/model.py says."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import msgspec

from oomph.evidence.run.model import (
    End,
    Fingerprint,
    GpuSample,
    Header,
    Note,
    Now,
    OomRecord,
    PhaseRecord,
    Record,
    Run,
    RunEnd,
    StepRecord,
)
from oomph.evidence.run.now import encode_now
from oomph.phases import Phase
from oomph.probe.model import Counters, Host

GIB = 1 << 30
START = 1_790_000_000.0
#: No process of any system has this number (Linux: at most 2**22).
NOBODY = 2**22 + 12_345
HERE = socket.gethostname()


class Maker:
    """Writes a run directory; clocks count up by themselves."""

    def __init__(
        self, path: Path, *, world: int = 1, command: tuple[str, ...] = ("python", "train.py"), host: str = ""
    ) -> None:
        self.path = path
        self.world = world
        self.clock = 100.0
        path.mkdir(parents=True, exist_ok=True)
        (path / "ranks").mkdir(exist_ok=True)
        self.json("run.json", Run(1, "run-1", START, command, world_size=world, oomph="0.0", host=host))

    def json(self, name: str, value: object) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(value) + b"\n")

    def text(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def tick(self, seconds: float = 1.0) -> tuple[float, float]:
        self.clock += seconds
        return START + self.clock, self.clock

    def raw(self, rank: int, line: bytes) -> None:
        with (self.path / f"ranks/rank-{rank:05d}.jsonl").open("ab") as file:
            file.write(line)

    def add(self, rank: int, *records: Record) -> None:
        for record in records:
            self.raw(rank, msgspec.json.encode(record) + b"\n")

    def begin(self, rank: int, *, host: str = HERE, pid: int = NOBODY, attempt: int = 0, **more) -> None:
        time, clock = self.tick(0.01)
        more = {
            "capacity_bytes": 80 * GIB,
            "device": "NVIDIA H100 80GB HBM3",
            "device_index": rank % 8,
            **more,
        }
        self.add(rank, Header(1, rank, self.world, rank % 8, pid, host, time, clock, attempt, **more))

    def phase(
        self, rank: int, phase: Phase, step: int, *, peak: int = 2 * GIB, after: int = GIB, **more
    ) -> None:
        time, clock = self.tick(0.1)
        counters = more.pop("counters", None) or Counters(
            allocated_bytes=after,
            reserved_bytes=max(peak, after),
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
        )
        self.add(rank, PhaseRecord(phase, step, time, clock, 0.1, counters, **more))

    def step(
        self, rank: int, step: int, *, after: int = GIB, peak: int = 2 * GIB, host: Host | None = None
    ) -> None:
        """A whole step: forward, backward, optimizer, and its record."""
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
            self.phase(rank, phase, step, peak=peak, after=after, host=host)
        time, clock = self.tick(0.1)
        counters = Counters(allocated_bytes=after, reserved_bytes=peak, peak_allocated_bytes=peak)
        self.add(rank, StepRecord(step, time, clock, 0.4, counters))

    def oom(
        self, rank: int, phase: Phase, step: int, *, message: str = "", caught: bool = False, **more
    ) -> OomRecord:
        time, clock = self.tick(0.1)
        counters = more.pop("counters", None) or Counters(
            allocated_bytes=70 * GIB,
            reserved_bytes=76 * GIB,
            free_bytes=GIB,
            total_bytes=80 * GIB,
            outside_bytes=GIB,
            other_processes_bytes=2 * GIB,
        )
        record = OomRecord(
            phase,
            step,
            time,
            clock,
            message,
            more.pop("request_bytes", 4 * GIB),
            counters,
            caught=caught,
            **more,
        )
        self.add(rank, record)
        return record

    def note(self, rank: int, code: str, text: str, **more) -> None:
        time, clock = self.tick(0.01)
        self.add(rank, Note(code, text, time, clock, **more))

    def end(self, rank: int, outcome: str, error: str = "") -> None:
        time, clock = self.tick(0.01)
        self.add(rank, End(outcome, time, clock, error))

    def now(
        self, rank: int, phase: Phase, step: int, *, over: bool = False, pid: int = NOBODY, **more
    ) -> None:
        time, clock = self.tick(0.01)
        file = self.path / f"ranks/rank-{rank:05d}.now"
        file.write_bytes(encode_now(Now(phase, step, time, clock, pid, over=over, **more)))

    def finish(self, exit_code: int, signal: int | None = None) -> None:
        self.json("end.json", RunEnd(self.tick()[0], exit_code, signal, 12.0))

    def fingerprint(self, values: dict[str, str], rank: int = 0) -> None:
        self.json(f"fingerprint/rank-{rank:05d}.json", Fingerprint(1, rank, values))

    def gpus(self, host: str, *samples: GpuSample) -> None:
        file = self.path / f"gpus/{host}.jsonl"
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as out:
            for sample in samples:
                out.write(msgspec.json.encode(sample) + b"\n")


def plain(**fields: object) -> bytes:
    """A line of JSON."""
    return json.dumps(fields).encode() + b"\n"
