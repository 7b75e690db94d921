"""Whether the plan's word on fitting agrees with what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.judge.answers import Answer


@dataclass(frozen=True)
class Verdicts:
    """Identifiers of rows. `judged`: rows with an outcome and a card that is known. false_fits: ran out of memory and
    was said to fit; those whose OOM nobody saw but extrapolated are in `false_fits_extrapolated` instead. false_ooms:
    ran and was said not to fit. unsure: neither was said. `ooms` and `fits` count the outcomes among the judged."""

    judged: int = 0
    ooms: int = 0
    fits: int = 0
    false_fits: tuple[str, ...] = ()
    false_fits_extrapolated: tuple[str, ...] = ()
    false_ooms: tuple[str, ...] = ()
    unsure_ooms: tuple[str, ...] = ()
    unsure_fits: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = field(default=())


def judge(answers: Iterable[Answer]) -> Verdicts:
    """Compares what was said with what happened. A measured row ran, so it is one that fits."""
    counts = {"oom": 0, "fits": 0}
    named: dict[str, list[str]] = {
        name: []
        for name in (
            "false_fits",
            "false_fits_extrapolated",
            "false_ooms",
            "unsure_ooms",
            "unsure_fits",
            "unjudged",
        )
    }
    for each in answers:
        row = each.row
        outcome = row.outcome or ("fits" if row.measured is not None else None)
        if outcome is None or each.capacity is None or each.predicted is None:
            named["unjudged"].append(row.id)
            continue
        counts[outcome] += 1
        if outcome == "oom" and each.fits:
            named["false_fits_extrapolated" if row.extrapolated else "false_fits"].append(row.id)
        elif outcome == "fits" and each.fits is False:
            named["false_ooms"].append(row.id)
        elif each.fits is None:
            named["unsure_ooms" if outcome == "oom" else "unsure_fits"].append(row.id)
    lists = {name: tuple(ids) for name, ids in named.items()}
    return Verdicts(judged=sum(counts.values()), ooms=counts["oom"], fits=counts["fits"], **lists)
