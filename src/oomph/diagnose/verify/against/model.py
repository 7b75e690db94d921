"""What was predicted, what was recorded, and what the difference comes from. All sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from oomph.evidence.run.data import RunData
from oomph.phases import Phase
from oomph.predict.model import PhasePeak, Plan, RankPlan

Kind = Literal["batch", "ranks", "version", "gpu", "setting", "together"]


@dataclass(frozen=True)
class Cause:
    """Something in which the run was not what was planned (`kind` "together": all of that at once). `text` says what
    the run had and what was planned. `bytes`: by how much the prediction of each phase changes when it is planned as
    the run had it; a phase without an entry is not predicted then. `unsupported`: why that cannot be planned ("": it
    can)."""

    kind: Kind
    text: str
    bytes: Mapping[Phase, int] = field(default_factory=dict)
    unsupported: str = ""


@dataclass(frozen=True)
class Row:
    """One phase: the prediction for the rank that recorded the most, and what that rank recorded, `first` up to the end
    of the first optimizer step and `later` after it. `needed`: what was allocated when a request failed in it, with
    that request. `within`: whether the largest lies in the prediction's interval;
    None where that cannot be told, and `open` says why. `expected` is what is predicted for the job as the run had it
    (None where nothing differs, or that cannot be planned), `expected_low` and `expected_high` its interval."""

    phase: Phase
    rank: int | None
    predicted: PhasePeak | None
    first: int | None = None
    later: int | None = None
    needed: int | None = None
    reserved: int | None = None
    within: bool | None = None
    open: str = ""
    expected: int | None = None
    expected_low: int | None = None
    expected_high: int | None = None

    @property
    def recorded(self) -> int | None:
        """The largest that was allocated, or needed."""
        return max((each for each in (self.first, self.later, self.needed) if each is not None), default=None)

    @property
    def difference(self) -> int | None:
        """Recorded less predicted."""
        if self.recorded is None or self.predicted is None:
            return None
        return self.recorded - self.predicted.allocated_bytes

    @property
    def unexplained(self) -> int | None:
        """Recorded less what is predicted for the job as the run had it."""
        if self.recorded is None or self.expected is None:
            return None
        return self.recorded - self.expected


@dataclass(frozen=True)
class CategoryRow:
    """One category at one moment: predicted at the phase's peak, recorded by a memory snapshot. `certainty` is that of
    the snapshot's categories."""

    category: str
    predicted: int
    recorded: int
    certainty: str = ""


@dataclass(frozen=True)
class Categories:
    """The categories of one moment of one rank. `text` says which moment, and why it may lie below the peak."""

    rank: int
    phase: Phase
    rows: tuple[CategoryRow, ...]
    text: str


@dataclass(frozen=True)
class Beside:
    """What of the card was not in allocated tensors, at its most. cached: reserved and not handed out, at the phase
    with the highest reserved peak; `cached_predicted` the same of the prediction. outside: this process beside the
    allocator, `outside_low` to `outside_high` as predicted; others: other processes, which no job says."""

    rank: int
    cached: int | None = None
    cached_predicted: int | None = None
    outside: int | None = None
    outside_low: int | None = None
    outside_high: int | None = None
    outside_with_others: int | None = None
    others: int | None = None


@dataclass(frozen=True)
class Against:
    """The whole comparison. `source` says where the job comes from. `causes` are in what the run differed from the job,
    whether or not it mattered. `notes` are sentences about what could not be read or compared."""

    data: RunData
    plan: Plan
    source: str
    rank: RankPlan | None
    rows: tuple[Row, ...]
    causes: tuple[Cause, ...] = ()
    beside: Beside | None = None
    categories: Categories | None = None
    why_no_categories: str = ""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: every phase that could be compared lies in its interval. 1: one does not, or none could be compared. 2:
        the job cannot be predicted."""
        if not self.plan.ranks:
            return 2
        judged = [row.within for row in self.rows if row.within is not None]
        return 0 if judged and all(judged) else 1
