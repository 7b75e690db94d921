"""`prediction`."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import (
    Asked,
    Seen,
    because,
    ended,
    highest,
    peaks,
    readable,
    settled,
    unjudged,
    why_not_readable,
)
from oomph.evidence.run.data import RankData
from oomph.phases import Phase
from oomph.predict.model import PhasePeak, Plan, RankPlan
from oomph.units import format_bytes

_OPTIONAL = (Phase.INIT, Phase.LOAD, Phase.EVAL, Phase.GENERATE, Phase.SAVE)
_Verdict = tuple[Status, str, Seen | None, PhasePeak]


class WithinPrediction:
    """With --plan: what each phase allocated at its peak lies within the prediction's interval, on every rank. Above it
    fails also where the run ended early; below it only where the run completed two steps and ended in order, since the
    optimizer's states come with the first. Skipped without --plan."""

    name = "prediction"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer for each phase that is predicted."""
        plan = asked.plan
        if plan is None:
            return [
                Answer(self.name, Status.SKIPPED, "no job was given to hold the run against (--plan JOB)")
            ]
        if not plan.ranks:
            why = "; ".join(plan.unsupported) or "it has no ranks"
            return [Answer(self.name, Status.UNKNOWN, f"the job cannot be predicted: {why}")]
        phases = list(dict.fromkeys(phase for rank in plan.ranks for phase in rank.phases))
        reasons = unjudged(asked.run)
        return [_phase(self.name, asked, plan, phase.value, reasons) for phase in phases]


def _phase(check: str, asked: Asked, plan: Plan, subject: str, reasons: list[str]) -> Answer:
    found: list[_Verdict] = []
    for rank in asked.run.ranks.values():
        its = plan_of(plan, rank.rank)
        peak = next((each for phase, each in its.phases.items() if phase.value == subject), None)
        if peak is not None:
            found.append(_judged(rank, peak))
    for status in (Status.FAILED, Status.UNKNOWN):
        those = [each for each in found if each[0] is status]
        if those:
            return _answer(check, subject, those[0], len(those))
    there = [each for each in found if each[0] is not Status.SKIPPED]
    if found and not there:
        return _answer(check, subject, found[0], 1)
    found = there
    if not found:
        return Answer(check, Status.UNKNOWN, because(reasons) or "no rank of this kind left records", subject)
    best = max(found, key=lambda each: each[2].size_bytes if each[2] else 0)
    if reasons:
        return Answer(check, Status.UNKNOWN, f"{because(reasons)}; up to then {best[1]}", subject)
    return _answer(check, subject, best, 1)


def _answer(check: str, subject: str, verdict: _Verdict, count: int) -> Answer:
    status, text, seen, peak = verdict
    more = f" (and on {count - 1} more ranks)" if count > 1 else ""
    numbers: dict[str, float] = {
        "predicted_bytes": peak.allocated_bytes,
        "low_bytes": peak.low_bytes,
        "high_bytes": peak.high_bytes,
    }
    if seen is not None:
        numbers["recorded_bytes"] = seen.size_bytes
    rank = None if seen is None else seen.rank
    return Answer(check, status, f"{text}{more}", subject, rank, peak.phase, numbers)


def _judged(rank: RankData, peak: PhasePeak) -> _Verdict:
    """One phase of one rank against its prediction."""
    if not readable(rank):
        return Status.UNKNOWN, why_not_readable(rank), None, peak
    seen = highest(peaks(rank, "allocated", peak.phase))
    low, high = format_bytes(peak.low_bytes), format_bytes(peak.high_bytes)
    asked = f"predicted were {low} to {high}"
    if seen is None:
        # A run need not save or evaluate.
        status = Status.SKIPPED if peak.phase in _OPTIONAL and settled(rank) else Status.UNKNOWN
        return status, f"no {peak.phase.value} phase was recorded on rank {rank.rank}", None, peak
    needed = "were needed" if seen.needed else "were allocated"
    told = f"{format_bytes(seen.size_bytes)} {needed} {seen.place}; {asked}"
    if seen.size_bytes > peak.high_bytes:
        return Status.FAILED, told, seen, peak
    if seen.size_bytes >= peak.low_bytes:
        return Status.PASSED, told, seen, peak
    over = peak.phase in (Phase.INIT, Phase.LOAD) and len(rank.summaries) > 1
    if over:
        return Status.FAILED, told, seen, peak
    if not settled(rank):
        return Status.UNKNOWN, f"rank {rank.rank} {ended(rank)}; up to then {told}", seen, peak
    if max(rank.steps_completed, len(rank.steps)) < 2:
        why = "fewer than two steps were completed, so that a whole step with the optimizer's states was not seen"
        return Status.UNKNOWN, f"{told}; {why}", seen, peak
    return Status.FAILED, told, seen, peak


def plan_of(plan: Plan, rank: int) -> RankPlan:
    """The predicted rank that stands for this one: the last kind that begins at or before it."""
    earlier = [each for each in plan.ranks if each.first_rank <= rank]
    return max(earlier, key=lambda each: each.first_rank) if earlier else plan.ranks[0]
