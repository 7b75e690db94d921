"""A combination of changes, and how combinations are compared."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from oomph.job.model import Job
from oomph.predict.model import Plan
from oomph.remedy.changes import Change
from oomph.remedy.costs import Cost


@dataclass(frozen=True)
class Choice:
    """A combination that fits. `peak_bytes`: highest allocated bytes; `upper_bytes`: the upper end of it, which fits
    in `room_bytes`.
    `fidelity`: 0 for the same operations, 1 for each change in rounding, 10 for each in mathematics or bits. `plan`: of
    the first few, with reserved bytes; its verdict is the last word."""

    changes: tuple[Change, ...]
    job: Job
    peak_bytes: int
    upper_bytes: int
    room_bytes: int
    cost: Cost
    fidelity: int
    plan: Plan | None = None

    @property
    def code_needed(self) -> bool:
        """Whether a flag is not enough for one of them."""
        return any(change.effort == "code" for change in self.changes)


def key_of(choice: Choice) -> tuple[float, ...]:
    """What choices are compared by; smaller is better in each."""
    time = round(log(max(choice.cost.per_token, 1e-12)) / log(1.02))
    memory = round(log(max(choice.upper_bytes, 1)) / log(1.25))
    return (time, memory, choice.fidelity, choice.code_needed)
