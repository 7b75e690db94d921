"""What a run directory says once it is read. All sizes are bytes; all of it is plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from oomph.evidence.run.files import Files
from oomph.evidence.run.model import (
    End,
    Fingerprint,
    GpuSample,
    Header,
    Note,
    Now,
    OomRecord,
    PhaseRecord,
    Run,
    RunEnd,
    StepRecord,
)
from oomph.phases import Phase


class Outcome(str, Enum):
    """How a rank ended. `unknown`: its records do not end, and nobody here can ask its host whether it lives;
    `missing`: there should be such a rank, and it wrote nothing."""

    COMPLETED = "completed"
    OOM = "oom"
    EXCEPTION = "exception"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    RUNNING = "running"
    UNKNOWN = "unknown"
    MISSING = "missing"

    def __str__(self) -> str:
        return self.value

    @property
    def failed(self) -> bool:
        """Whether the rank is known not to have done its work."""
        return self in (Outcome.OOM, Outcome.EXCEPTION, Outcome.INTERRUPTED, Outcome.KILLED)


@dataclass(frozen=True)
class Doing:
    """What a rank was doing at its end. `certain`: its own records say so; otherwise it follows from what came next in
    earlier steps. `phase` is unknown with `certain` where nothing that is recorded had begun. `why` is a sentence.
    """

    phase: Phase
    step: int
    certain: bool
    why: str
    where: str = ""


@dataclass(frozen=True)
class Peaks:
    """The largest values of one phase over the records that it sums up. `step` is the one of the largest
    `allocated_bytes`, `batch` its batch; `active_bytes` and the rest are the largest seen at an end of the phase.
    `growth_bytes`: largest of (peak within the phase - what was alive when it began)."""

    records: int
    seconds: float
    allocated_bytes: int
    reserved_bytes: int
    active_bytes: int
    growth_bytes: int
    step: int
    retries: int = 0
    ooms: int = 0
    free_bytes: int | None = None
    outside_bytes: int | None = None
    other_processes_bytes: int | None = None
    rss_bytes: int | None = None
    pinned_bytes: int | None = None
    batch: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseSummary:
    """One phase of one rank: what came before the first optimizer step ended (`first`: steps -1 and 0), and all after
    it (`later`). None where the phase did not occur then."""

    phase: Phase
    first: Peaks | None
    later: Peaks | None

    @property
    def peak_allocated_bytes(self) -> int:
        return max((one.allocated_bytes for one in (self.first, self.later) if one is not None), default=0)

    @property
    def peak_reserved_bytes(self) -> int:
        return max((one.reserved_bytes for one in (self.first, self.later) if one is not None), default=0)


@dataclass(frozen=True)
class Growth:
    """How what stays at the end of a step changes over the steps: medians of the first and the last third of the steps
    after the first, divided by the steps between them. `steady`: no value of the last third is below any of the first
    (values go up and down with the batch otherwise)."""

    steps: int
    allocated_per_step: float
    reserved_per_step: float
    rss_per_step: float | None
    steady: bool


@dataclass(frozen=True)
class RankData:
    """The records of one rank, in their order; `now` is what it was doing when it last said so. Of very many the
    first, the last and those with a new peak are kept (`left_out` counts the others); `summaries`, `growth` and the
    counts are of all.

    What concerns the end (`end`, `outcome`, `doing`) is of the last attempt; `attempts` are the outcomes of all.
    """

    rank: int
    headers: tuple[Header, ...] = ()
    phases: tuple[PhaseRecord, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    ooms: tuple[OomRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    end: End | None = None
    outcome: Outcome = Outcome.MISSING
    why: str = ""
    doing: Doing | None = None
    now: Now | None = None
    attempts: tuple[Outcome, ...] = ()
    summaries: Mapping[Phase, PhaseSummary] = field(default_factory=dict)
    growth: Growth | None = None
    #: Optimizer steps of the last attempt; not every one has a record.
    steps_completed: int = 0
    #: The line of the file on which each record that is kept stands, by `rank.line_key`.
    lines: Mapping[tuple[str, float], int] = field(default_factory=dict, repr=False)
    left_out: int = 0
    damaged: int = 0
    unknown: int = 0
    last_time: float | None = None
    last_clock: float | None = None

    @property
    def header(self) -> Header | None:
        """Of the last attempt."""
        return self.headers[-1] if self.headers else None

    @property
    def oom(self) -> OomRecord | None:
        """The failed request that ended the last attempt."""
        if self.outcome is not Outcome.OOM or not self.ooms:
            return None
        return next((one for one in reversed(self.ooms) if not one.caught), self.ooms[-1])

    @property
    def peak_allocated_bytes(self) -> int:
        """The largest of all phases."""
        return max((one.peak_allocated_bytes for one in self.summaries.values()), default=0)

    @property
    def peak_reserved_bytes(self) -> int:
        """The largest of all phases."""
        return max((one.peak_reserved_bytes for one in self.summaries.values()), default=0)


@dataclass(frozen=True)
class FirstFailure:
    """Who failed first. `ranks`: more than one where their order cannot be told; `victims`: those that failed because
    of it, by what their records say. `why` is a sentence."""

    ranks: tuple[int, ...]
    certain: bool
    why: str
    victims: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunData:
    """A whole run. `ranks` has every rank that wrote something; `missing` those that should have. `outputs` are the
    names of the files with what was printed, `snapshots` those of memory snapshots. `notes` say, a sentence each, what
    could not be read."""

    path: str
    files: Files
    run: Run
    ranks: Mapping[int, RankData]
    world_size: int | None = None
    missing: tuple[int, ...] = ()
    end: RunEnd | None = None
    outcome: Outcome = Outcome.UNKNOWN
    first_failure: FirstFailure | None = None
    gpus: Mapping[str, tuple[GpuSample, ...]] = field(default_factory=dict)
    fingerprints: Mapping[int, Fingerprint] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
