"""Bands for src/oomph/predict/interval.py from the residuals of predictions.

A residual is how far a measured size lies outside of what the variants of the code give (measured / predicted - 1 where
there is one variant). Nearly all published rows say whose code ran: for code that nobody named the same rows are asked
once more with their framework and source taken away.

Rows of one source (a publication, with all its tables) repeat one set-up with small changes, so every source weighs the
same, however many rows it has. The ends of a band are the quantiles that leave half of 1 - `LEVEL` on either side; each
end is at least its counter's `LEAST`, and rounded up to half a percent. (With fewer than ten sources the correction of
split conformal prediction would make every band the largest residual ever seen.) A cell is a counter in a situation;
its band is that of the counter in all situations in which the code is as well known, or wider where `FEWEST` sources of
its own say so: no situation is surer than the counter. Where a counter has fewer sources than that, too little is known
to tell above from below, and both ends are the larger one. Judged is what would have been printed for sources that were
left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.judge.answers import Answer
from benchmarks.judge.rows import Row

#: The share of measured sizes that intervals shall hold.
LEVEL = 0.9
#: Sources that a cell needs to speak for itself, and a counter to have two different ends.
FEWEST = 4
#: No band is narrower on a side. allocated: measured sizes are printed with two or three digits. end_allocated: one
#: source alone has measured it. reserved: points of one program alone, and what a process cached before its step
#: (loading, validation, other batches) no job says.
LEAST = {"allocated": 0.01, "end_allocated": 0.02, "reserved": 0.05}
_STEP = 0.005
_COUNTERS = {"max_allocated": "allocated", "end_allocated": "end_allocated", "max_active": "allocated"}


@dataclass(frozen=True)
class Residual:
    """One row: its source, the counter and situation that its band is chosen by, and how far off the measured size
    was."""

    source: str
    counter: str
    situation: str
    value: float


def residuals(answers: Iterable[Answer]) -> list[Residual]:
    """The residuals of all rows that have a prediction and a measured size."""
    return [
        Residual(
            each.row.publication,
            _COUNTERS.get(each.row.metric, "reserved"),
            each.situation or "unknown",
            each.residual,
        )
        for each in answers
        if each.residual is not None
    ]


def blinded(row: Row) -> Row:
    """The row as somebody would tell it who does not know whose code ran."""
    return replace(row, raw={**row.raw, "framework": None, "source": "not named"})


def band(known: Sequence[Residual], counter: str, situation: str) -> tuple[float, float] | None:
    """Below and above for a cell, from residuals; None where there are none of its counter."""
    named = situation != "unknown"
    of_counter = [
        each for each in known if each.counter == counter and (each.situation != "unknown") is named
    ]
    if not of_counter:
        return None
    cell = [each for each in of_counter if each.situation == situation]
    below, above = _ends(of_counter)
    if len({each.source for each in cell}) >= FEWEST:
        own = _ends(cell)
        below, above = max(below, own[0]), max(above, own[1])
    if len({each.source for each in of_counter}) < FEWEST:
        below = above = max(below, above)
    least = LEAST.get(counter, 0.0)
    return max(least, below), max(least, above)


def _ends(chosen: Sequence[Residual]) -> tuple[float, float]:
    """Below and above, of the residuals themselves."""
    share = (1 + LEVEL) / 2
    below = _quantile([(-each.value, each.source) for each in chosen], share)
    return _rounded(below), _rounded(_quantile([(each.value, each.source) for each in chosen], share))


def _quantile(values: Sequence[tuple[float, str]], share: float) -> float:
    """The smallest value that `share` of the sources' weight does not exceed."""
    sources = [source for _, source in values]
    wanted = share * len(set(sources))
    reached = 0.0
    ordered = sorted(values)
    for value, source in ordered:
        reached += 1 / sources.count(source)
        if reached >= wanted - 1e-9:
            return value
    return ordered[-1][0]


def _rounded(share: float) -> float:
    """Up to the next step; the small number undoes what binary fractions add."""
    return max(0.0, round(math.ceil(share / _STEP - 1e-9) * _STEP, 4))


def left_out(known: Sequence[Residual]) -> tuple[float, float, int]:
    """With every source left out once: the share of its rows inside the bands from the others, the median width of
    those bands, and how many rows could be judged (a counter that one source alone has cannot)."""
    inside, widths = [], []
    for each in known:
        others = [other for other in known if other.source != each.source]
        its = band(others, each.counter, each.situation)
        if its is not None:
            inside.append(-its[0] <= each.value <= its[1])
            widths.append(sum(its))
    return (statistics.fmean(inside), statistics.median(widths), len(inside)) if inside else (0.0, 0.0, 0)


def calibrated(answers: Iterable[Answer]) -> str:
    """The bands and how they fared, as text."""
    known = residuals(answers)
    lines = [f"{'counter':14} {'situation':10} {'sources':>7} {'rows':>4} {'below':>6} {'above':>6}"]
    for counter in dict.fromkeys(each.counter for each in known):
        for situation in ("known", "unknown", "compiled", "sharded"):
            its = band(known, counter, situation)
            cell = [each for each in known if each.counter == counter and each.situation == situation]
            sources = len({each.source for each in cell})
            if its is not None:
                lines.append(
                    f"{counter:14} {situation:10} {sources:7} {len(cell):4} {its[0]:6.1%} {its[1]:6.1%}"
                    + ("" if sources >= FEWEST else "  (from other situations)")
                )
    for what, chosen in (
        ("code named", [each for each in known if each.situation != "unknown"]),
        ("code not named", [each for each in known if each.situation == "unknown"]),
    ):
        covered, width, rows = left_out(chosen)
        lines.append(
            f"{what}, left out source by source: {covered:.1%} of {rows} rows covered, median width {width:.1%}"
        )
    return "\n".join(lines)
