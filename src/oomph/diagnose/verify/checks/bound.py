"""Peaks under a limit: what `limit` and `evaluation` share."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.settings import Limit
from oomph.diagnose.verify.view import (
    Asked,
    because,
    highest,
    peaks,
    readable,
    searched,
    unjudged,
    why_not_readable,
)
from oomph.units import format_bytes


def under(check: str, subject: str, asked: Asked, limit: Limit) -> Answer:
    """Whether no recorded peak is above the limit; "could not tell" where more may have happened than was recorded."""
    ranks = asked.run.ranks.values()
    seen = [each for rank in ranks for each in peaks(rank, limit.counter, limit.phase)]
    over = highest(each for each in seen if each.size_bytes > limit.size_bytes)
    asked_for = f"the limit is {format_bytes(limit.size_bytes)}"
    name = limit.counter if limit.phase is None else f"{limit.counter} in {limit.phase.value}"
    if over is not None:
        verb = "were needed" if over.needed else f"were {limit.counter}"
        return Answer(
            check,
            Status.FAILED,
            f"{format_bytes(over.size_bytes)} {verb} {over.place}; {asked_for}",
            subject,
            over.rank,
            over.phase,
            {"peak_bytes": over.size_bytes, "limit_bytes": limit.size_bytes},
        )
    most = highest(seen)
    reasons = [*unjudged(asked.run), *_gaps(asked)]
    if most is None:
        what = "no phase" if limit.phase is None else f"no {limit.phase.value} phase"
        return Answer(check, Status.UNKNOWN, because([f"{what} was recorded", *reasons]), subject)
    told = f"at most {format_bytes(most.size_bytes)} were {name} ({most.place.split(' in ')[0]})"
    if limit.counter == "active":
        reasons.append("active memory is recorded at the ends of phases only, not at their peaks")
    numbers = {"peak_bytes": most.size_bytes, "limit_bytes": limit.size_bytes}
    if reasons:
        text = f"{because(reasons)}; up to then {told}; {asked_for}"
        return Answer(check, Status.UNKNOWN, text, subject, most.rank, most.phase, numbers)
    return Answer(check, Status.PASSED, f"{told}; {asked_for}", subject, most.rank, most.phase, numbers)


def _gaps(asked: Asked) -> Sequence[str]:
    found = [why_not_readable(rank) for rank in asked.run.ranks.values() if not readable(rank)]
    found += [
        f"rank {rank.rank} searched for a batch that fits, and not all of its later records were kept"
        for rank in asked.run.ranks.values()
        if rank.left_out and searched(rank) is not None
    ]
    return found
