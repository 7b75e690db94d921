"""What one change is predicted to save, in each phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.remedy.changes import Change, by_code


@dataclass(frozen=True)
class Saving:
    """One change on one job. `bytes_by_phase`: allocated at the peak before, less after; below 0 where the phase needs
    more. `of_peak`: the same for the highest phase of each, which is what decides."""

    change: Change
    bytes_by_phase: Mapping[Phase, int]
    of_peak: int


def saving(job: Job, code: str) -> Saving | None:
    """The mildest change with this code (of `remedy.changes` and, where both have one, of the actions of
    `oomph explain`). None where it does not apply, or the job or the changed job is not modelled. Raises UsageError for
    a job that contradicts itself."""
    change = by_code(job, code)
    return None if change is None else saving_of(job, change)


def saving_of(job: Job, change: Change) -> Saving | None:
    """Of a change that applies. None and UsageError as `saving`."""
    from oomph.predict.plan import plan

    before = plan(job, replay=False)
    after = plan(change.apply(job), replay=False)
    if not before.ranks or not after.ranks:
        return None
    was, is_ = _peaks(before), _peaks(after)
    by_phase = {phase: was[phase] - is_.get(phase, 0) for phase in was}
    return Saving(change, by_phase, max(was.values()) - max(is_.values()))


def _peaks(plan: Plan) -> dict[Phase, int]:
    return {phase: peak.allocated_bytes for phase, peak in plan.worst.phases.items()}
