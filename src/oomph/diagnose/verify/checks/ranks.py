"""`ranks`."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import (
    Asked,
    Seen,
    because,
    highest,
    listed,
    lost,
    readable,
    why_not_readable,
)
from oomph.evidence.run.data import RankData
from oomph.units import format_bytes


class Ranks:
    """The ranks' peaks of allocated memory, over the steps that all of them completed, lie within a share (10 %, as it
    is given) of the highest. Stages of a pipeline, and tensor-parallel ranks with a part of their own, differ by
    design: give them more. Skipped for a job of one rank."""

    name = "ranks"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        run = asked.run
        ranks = list(run.ranks.values())
        if len(ranks) + len(run.missing) <= 1:
            return [Answer(self.name, Status.SKIPPED, "the job has one rank")]
        reasons = [why_not_readable(rank) for rank in ranks if not readable(rank)]
        lossy = [rank.rank for rank in ranks if lost(rank)]
        if lossy:
            reasons.append(f"records of {listed(lossy)} were lost or damaged")
        if run.missing:
            reasons.append(f"{listed(run.missing)} left no records")
        last = _common_step(ranks)
        seen = [] if last is None else [found for rank in ranks if (found := _peak(rank, last)) is not None]
        if last is None or len(seen) < 2:
            reasons.append("there is no step that all ranks completed")
            return [Answer(self.name, Status.UNKNOWN, because(reasons))]
        return [_judged(self.name, asked, seen, last, reasons)]


def _judged(check: str, asked: Asked, seen: list[Seen], last: int, reasons: list[str]) -> Answer:
    most = max(seen, key=lambda each: each.size_bytes)
    least = min(seen, key=lambda each: each.size_bytes)
    apart = most.size_bytes - least.size_bytes
    share = 100 * apart / most.size_bytes if most.size_bytes else 0.0
    text = (
        f"all {len(seen)} ranks have {format_bytes(most.size_bytes)}"
        if not apart
        else (
            f"rank {most.rank} has {format_bytes(most.size_bytes)} and rank {least.rank} "
            f"{format_bytes(least.size_bytes)}, {share:.1f} % less"
        )
    )
    text += f", up to step {last}; allowed are {asked.settings.ranks}"
    numbers = {
        "most_bytes": most.size_bytes,
        "least_bytes": least.size_bytes,
        "apart_percent": round(share, 3),
    }
    if apart > asked.settings.ranks.of(most.size_bytes):
        return Answer(check, Status.FAILED, text, "", most.rank, most.phase, numbers)
    if reasons:
        return Answer(
            check, Status.UNKNOWN, f"{because(reasons)}; of the others, {text}", "", None, None, numbers
        )
    return Answer(check, Status.PASSED, text, "", most.rank, most.phase, numbers)


def _common_step(ranks: list[RankData]) -> int | None:
    """The last step that every rank completed."""
    lasts = [max((step.step for step in rank.steps), default=None) for rank in ranks]
    known = [last for last in lasts if last is not None]
    return min(known) if known and len(known) == len(lasts) else None


def _peak(rank: RankData, last: int) -> Seen | None:
    """The rank's highest peak up to a step."""
    return highest(
        Seen(rank.rank, one.phase, one.step, one.counters.peak_allocated_bytes)
        for one in rank.phases
        if one.step <= last
    )
