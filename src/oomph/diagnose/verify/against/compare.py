"""Predicted and recorded, phase by phase."""

from __future__ import annotations

from dataclasses import replace

from oomph.diagnose.verify.against.categories import categories_of
from oomph.diagnose.verify.against.causes import Predict, causes
from oomph.diagnose.verify.against.model import Against, Beside, Row
from oomph.diagnose.verify.against.recorded_job import RecordedJob, recorded_job
from oomph.diagnose.verify.checks.prediction import plan_of
from oomph.diagnose.verify.view import (
    beside as beside_of,
)
from oomph.diagnose.verify.view import (
    ended,
    highest,
    peaks,
    readable,
    settled,
    unjudged,
    why_not_readable,
)
from oomph.errors import OomphError
from oomph.evidence.run.data import Peaks, RankData, RunData
from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.model import PhasePeak, Plan, RankPlan
from oomph.units import format_bytes


def against(data: RunData, job: Job, plan: Plan, predict: Predict, source: str) -> Against:
    """The comparison of a run with the plan of a job. `predict` plans the job as the run had it; `source` says in words
    where the job comes from."""
    notes = [*data.notes, *(f"{reason[0].upper()}{reason[1:]}." for reason in unjudged(data))]
    if not plan.ranks:
        return Against(data, plan, source, None, (), notes=tuple(notes))
    ran = _ran(data, notes)
    rank = _fullest(data)
    base = plan_of(plan, 0 if rank is None else rank.rank)
    notes += _without_a_gpu(rank, base)
    found, together = causes(data, job, ran, predict, base)
    phases = list(base.phases)
    for each in data.ranks.values():
        phases += [phase for phase in each.summaries if phase not in phases and phase is not Phase.UNKNOWN]
    rows = tuple(_row(data, plan, phase, together) for phase in phases)
    table = categories_of(data, plan)
    return Against(
        data,
        plan,
        source,
        base,
        rows,
        found,
        None if rank is None else _beside(rank, base),
        None if isinstance(table, str) else table,
        table if isinstance(table, str) else "",
        tuple(notes),
    )


def _ran(data: RunData, notes: list[str]) -> RecordedJob | None:
    """The job that the run itself describes."""
    try:
        return recorded_job(data)
    except OomphError as error:
        notes.append(f"What the run was set to is not compared with the job: {error}")
        return None


def _without_a_gpu(rank: RankData | None, base: RankPlan) -> list[str]:
    """What a run on the CPU cannot have."""
    header = None if rank is None else rank.header
    if header is None or header.device != "CPU":
        return []
    workspace = {
        phase: sum(term.bytes for term in peak.terms if term.category is Category.WORKSPACE)
        for phase, peak in base.phases.items()
    }
    most = max(workspace.values(), default=0)
    told = (
        "The run was on the CPU, counted as if it were a GPU: workspaces of a GPU's libraries, of which "
        f"{format_bytes(most)} are predicted, and memory within kernels are not in what was recorded."
    )
    return [told]


def _fullest(data: RunData) -> RankData | None:
    """The rank with the highest peak."""
    return max(data.ranks.values(), key=lambda rank: rank.peak_allocated_bytes, default=None)


def _row(data: RunData, plan: Plan, phase: Phase, together: RankPlan | None) -> Row:
    """One phase on the rank that recorded the most in it."""
    rank = max(
        (rank for rank in data.ranks.values() if phase in rank.summaries),
        key=lambda rank: rank.summaries[phase].peak_allocated_bytes,
        default=None,
    )
    if rank is None:
        return Row(phase, None, plan_of(plan, 0).phases.get(phase), open="it was not recorded")
    summary = rank.summaries[phase]
    predicted = plan_of(plan, rank.rank).phases.get(phase)
    needed = highest(each for each in peaks(rank, "allocated", phase) if each.needed)
    row = Row(
        phase,
        rank.rank,
        predicted,
        _allocated(summary.first),
        _allocated(summary.later),
        None if needed is None else needed.size_bytes,
        summary.peak_reserved_bytes or None,
    )
    within, why = _within(rank, row, predicted)
    row = replace(row, within=within, open=why)
    expected = None if together is None else together.phases.get(phase)
    if expected is None:
        return row
    return replace(
        row,
        expected=expected.allocated_bytes,
        expected_low=expected.low_bytes,
        expected_high=expected.high_bytes,
    )


def _allocated(its: Peaks | None) -> int | None:
    return None if its is None else its.allocated_bytes


def _within(rank: RankData, row: Row, predicted: PhasePeak | None) -> tuple[bool | None, str]:
    """Whether what was recorded lies in the interval; or why that cannot be told."""
    recorded = row.recorded
    if predicted is None:
        return None, "it is not predicted"
    if not readable(rank) or recorded is None:
        return None, why_not_readable(rank)
    if recorded > predicted.high_bytes:
        return False, ""
    if recorded >= predicted.low_bytes:
        return True, ""
    over = row.phase in (Phase.INIT, Phase.LOAD) and len(rank.summaries) > 1
    if not settled(rank) and not over:
        return None, f"rank {rank.rank} {ended(rank)}: its peak may lie higher"
    if row.later is None and not over:
        return None, "only the first step was recorded, in which the optimizer's states are not there yet"
    return False, ""


def _beside(rank: RankData, base: RankPlan) -> Beside:
    """What of the fullest rank's card was not in tensors."""
    held = [summary for summary in rank.summaries.values() if summary.peak_reserved_bytes]
    top = max(held, key=lambda each: each.peak_reserved_bytes, default=None)
    its = None if top is None else base.phases.get(top.phase)
    cached = None if top is None else top.peak_reserved_bytes - top.peak_allocated_bytes
    planned = None
    if its is not None and its.reserved_bytes is not None:
        planned = its.reserved_bytes - its.allocated_bytes
    every = [one for each in rank.summaries.values() for one in (each.first, each.later) if one is not None]
    outside = [one.outside_bytes for one in every if one.outside_bytes is not None]
    others = [one.other_processes_bytes for one in every if one.other_processes_bytes is not None]
    return Beside(
        rank.rank,
        cached,
        planned,
        max(outside, default=None),
        base.outside.low_bytes,
        base.outside.high_bytes,
        beside_of(rank),
        max(others, default=None),
    )
