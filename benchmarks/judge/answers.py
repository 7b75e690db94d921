"""The prediction for a row: its job, the plan for it, and the number of the plan that the row's counter measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.judge.rows import Row
from oomph.errors import OomphError
from oomph.hardware.names import gpu
from oomph.hardware.outside import available_bytes
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.interval import Counter, Situation, band, situation, widen
from oomph.predict.model import PhasePeak, Plan, RankPlan

#: The phases that a training process passes before its counters are read. What saving needs comes after that.
_COUNTED = (
    Phase.INIT,
    Phase.LOAD,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.OPTIMIZER,
    Phase.EVAL,
    Phase.GENERATE,
)
#: Counters that only the allocator's replay gives.
_REPLAYED = ("max_reserved", "nvml_device")

Importer = Callable[[dict[str, Any], Path], Job]
Planner = Callable[[Job, bool], Plan]


@dataclass(frozen=True)
class Answer:
    """What was predicted for a row: bytes, their interval, the phase of the peak; whether the job is said to fit (None:
    it may or may not, or nothing is known of the card). `code` is the interval that variants of the code alone give.
    `unsupported` says why there is no prediction; `crashed` marks an error that nobody foresaw."""

    row: Row
    predicted: int | None = None
    low: int | None = None
    high: int | None = None
    phase: str | None = None
    fits: bool | None = None
    capacity: int | None = None
    situation: str | None = None
    unsupported: str | None = None
    crashed: bool = False
    code: tuple[float, float] | None = None

    @property
    def residual(self) -> float | None:
        """How far the measured size lies outside of what variants of the code give, as a share of the nearer end: below
        0 where it lies below."""
        if self.predicted is None or self.row.measured is None:
            return None
        low, high = self.code or (self.predicted, self.predicted)
        if low <= self.row.measured <= high:
            return 0.0
        return self.row.measured / (low if self.row.measured < low else high) - 1

    @property
    def error(self) -> float | None:
        """Predicted against measured, as a share of the measured: above 0 is too much."""
        if self.predicted is None or self.row.measured is None:
            return None
        return self.predicted / self.row.measured - 1

    @property
    def covered(self) -> bool | None:
        """Whether the measured size lies in the interval."""
        if self.low is None or self.high is None or self.row.measured is None:
            return None
        return self.low <= self.row.measured <= self.high

    @property
    def width(self) -> float | None:
        """The interval's width as a share of the prediction."""
        if self.low is None or self.high is None or not self.predicted:
            return None
        return (self.high - self.low) / self.predicted


def answer(row: Row, configs: Path, importer: Importer, planner: Planner, *, replay: bool = True) -> Answer:
    """The prediction for a row, or why there is none: whatever a row holds, this raises nothing."""
    if row.problem is not None:
        return Answer(row, unsupported=row.problem)
    name = str(row.raw["model"]["config"])
    if Path(name).name != name or not (configs / name).is_file():
        return Answer(row, unsupported=f"{name} is not in {configs.name}/ beside the points.")
    try:
        job = importer(row.raw, configs)
        plan = planner(job, replay)
        return _answer(row, job, plan)
    except OomphError as error:
        return Answer(row, unsupported=str(error))
    except Exception as error:  # noqa: BLE001 - a row is reported, never a reason to stop
        return Answer(row, unsupported=f"oomph failed: {type(error).__name__}: {error}", crashed=True)


def _answer(row: Row, job: Job, plan: Plan) -> Answer:
    if plan.unsupported or not plan.ranks:
        return Answer(row, unsupported="; ".join(plan.unsupported) or "the plan gives no number.")
    where = situation(job)
    numbers = [_counted(row.metric, rank, where, _most(job)) for rank in plan.ranks]
    known = [each for each in numbers if each is not None]
    if not known:
        return Answer(
            row, unsupported=f"the plan has no {row.metric}: it was not played through the allocator."
        )
    its = max(known, key=lambda each: each.point)
    return Answer(
        row,
        its.point,
        its.low,
        its.high,
        its.phase,
        plan.fits,
        plan.capacity_bytes,
        where,
        code=its.without_band(where),
    )


def _most(job: Job) -> int | None:
    """The most that PyTorch can have of the job's card; None where it names none."""
    return available_bytes(gpu(job.hardware.gpu)).high_bytes if job.hardware.gpu else None


@dataclass(frozen=True)
class _Number:
    """A counter's prediction, in bytes; the band that `low` and `high` were widened by is that of `counter`."""

    point: int
    low: int
    high: int
    phase: str
    counter: Counter

    def without_band(self, where: Situation) -> tuple[float, float]:
        """The interval before it was widened: what the variants of the code give."""
        its = band(self.counter, where)
        return min(self.point, self.low / (1 - its.below)), max(self.point, self.high / (1 + its.above))


def _counted(metric: str, rank: RankPlan, where: Situation, capacity: int | None) -> _Number | None:
    """A counter on one rank."""
    phases = [rank.phases[each] for each in _COUNTED if each in rank.phases]
    if metric == "end_allocated":
        low, high = widen(rank.end_allocated_bytes, "end_allocated", where)
        return _Number(rank.end_allocated_bytes, low, high, "end of the step", "end_allocated")
    if metric in _REPLAYED:
        return _reserved(metric, rank, phases, capacity)
    peak = max(phases, key=lambda each: each.allocated_bytes)
    low = max(each.low_bytes for each in phases)
    high = max(each.high_bytes for each in phases)
    if metric == "max_active":
        # Active memory is allocated memory and freed blocks that wait for another stream: it is reserved all the time.
        reserved = [each.reserved_high_bytes for each in phases if each.reserved_high_bytes is not None]
        high = max(high, *reserved) if reserved else high
    return _Number(peak.allocated_bytes, low, high, str(peak.phase), "allocated")


def _reserved(metric: str, rank: RankPlan, phases: list[PhasePeak], capacity: int | None) -> _Number | None:
    """What is reserved: no more than the card has, since PyTorch gives cached memory back before it fails. Where it
    does, anything down to what is allocated may be left."""
    held = [(each.reserved_bytes, each) for each in phases if each.reserved_bytes is not None]
    if not held:
        return None
    point, peak = max(held, key=lambda each: each[0])
    low = max(each.reserved_low_bytes or its for its, each in held)
    high = max(each.reserved_high_bytes or its for its, each in held)
    allocated = max(each.allocated_bytes for each in phases)
    if capacity is not None and allocated <= capacity < point:
        point, low, high = capacity, min(low, allocated), capacity
    if metric == "nvml_device":
        outside = rank.outside
        point += (outside.low_bytes + outside.high_bytes) // 2
        low, high = low + outside.low_bytes, high + outside.high_bytes
    return _Number(point, low, high, str(peak.phase), "reserved")
