"""What a job needs at its highest, and what there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oomph.errors import UsageError
from oomph.hardware.names import gpu
from oomph.hardware.outside import available_bytes
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.interval import situation, widen
from oomph.predict.model import Plan

#: Gives the highest allocated bytes of a job as it is; raises UsageError for one that is not modelled.
Predictor = Callable[[Job], int]
#: Gives the plan of a job; with True after playing it through the allocator.
Planner = Callable[[Job, bool], Plan]


def planned(job: Job, replay: bool) -> Plan:
    """The default planner."""
    from oomph.predict.plan import plan

    return plan(job, replay=replay)


def predicted(job: Job) -> int:
    """The default predictor: the job is filled and checked, then its peaks are added up. Where nothing says whether
    attention has a mask, the higher one counts: what is found has to fit with it."""
    from oomph.predict.compose.masks import open_job
    from oomph.predict.plan import peak_bytes

    filled = _filled(job)
    masked = open_job(filled)
    return max(peak_bytes(each) for each in (filled, masked) if each is not None)


def quickly(job: Job) -> int:
    """The predictor of a search: as `predicted`, from a few layers where all are equal (`remedy.short`), with a mask
    alone where there may be one."""
    from oomph.predict.compose import supported
    from oomph.predict.compose.masks import open_job
    from oomph.predict.plan import peak_bytes
    from oomph.remedy.short import short_peak_bytes

    filled = _filled(job)
    supported.check(filled)
    filled = open_job(filled) or filled
    found = short_peak_bytes(filled)
    return peak_bytes(filled) if found is None else found


def _filled(job: Job) -> Job:
    from oomph.job.check import check
    from oomph.job.resolve import resolve

    filled = resolve(job)[0]
    check(filled)
    return filled


def upper(job: Job, peak_bytes: int) -> int:
    """The upper end of a predicted peak: what has to fit."""
    return widen(peak_bytes, "allocated", situation(job))[1]


@dataclass(frozen=True)
class Room:
    """`bytes`: what peaks may reach, with the headroom left free. `failing`: the phases of the plan that do not surely
    fit in it."""

    bytes: int
    failing: frozenset[Phase]


def room_elsewhere(room_bytes: int, job: Job, other: Job, headroom: float) -> int:
    """The room of a job that differs in its hardware from the one that `room_bytes` is of: what the other card has
    more, less the headroom of that."""
    if other.hardware == job.hardware or not other.hardware.gpu or not job.hardware.gpu:
        return room_bytes
    now, then = (available_bytes(gpu(each.hardware.gpu)).low_bytes for each in (job, other))
    if job.hardware.free_bytes is not None:
        now = min(now, job.hardware.free_bytes)
    return room_bytes + int((then - now) * (1 - headroom))


def room_of(plan: Plan, headroom: float) -> Room | None:
    """The room on the card of a plan; None where no capacity is known. `headroom`: a share of the capacity.

    Raises UsageError for a headroom that leaves nothing.
    """
    if not 0 <= headroom < 1:
        raise UsageError(f"A headroom of {headroom:.0%} leaves nothing: give one from 0% to 99%.")
    if plan.capacity_bytes is None:
        return None
    rest = 0
    if plan.ranks and plan.job.hardware.capacity_bytes is None:
        # The card's capacity has the context taken off already; what else is outside (NCCL, libraries) has not.
        rest = max(0, plan.worst.outside.high_bytes - plan.worst.outside.context_high_bytes)
    size = max(0, int((plan.capacity_bytes - rest) * (1 - headroom)))
    failing = frozenset(
        phase for rank in plan.ranks for phase, peak in rank.phases.items() if peak.high_bytes > size
    )
    return Room(size, failing)
