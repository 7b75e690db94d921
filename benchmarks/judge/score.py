"""Statistics of errors and intervals; shares throughout (0.02 is 2 %)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.judge.answers import Answer


@dataclass(frozen=True)
class Score:
    """Of `n` rows with a prediction: median, 90th percentile and worst of the absolute relative errors, their mean with
    the sign (`bias`), the share of rows whose interval holds the measured size, and the median width of the intervals.
    None where there are no rows."""

    n: int
    median: float | None = None
    p90: float | None = None
    worst: float | None = None
    bias: float | None = None
    coverage: float | None = None
    width: float | None = None


def p90(errors: Sequence[float]) -> float:
    """The smallest of the errors that at least nine tenths of them do not exceed."""
    return sorted(errors)[math.ceil(0.9 * len(errors)) - 1]


def score(answers: Iterable[Answer]) -> Score:
    """The score of the rows among `answers` that have both a measured size and a prediction."""
    counted = [each for each in answers if each.error is not None]
    if not counted:
        return Score(0)
    signed = [each.error for each in counted if each.error is not None]
    errors = [abs(each) for each in signed]
    covered = [each.covered for each in counted if each.covered is not None]
    widths = [each.width for each in counted if each.width is not None]
    return Score(
        n=len(counted),
        median=statistics.median(errors),
        p90=p90(errors),
        worst=max(errors),
        bias=statistics.fmean(signed),
        coverage=statistics.fmean(covered) if covered else None,
        width=statistics.median(widths) if widths else None,
    )


def scores_by(answers: Iterable[Answer], key: Callable[[Answer], str]) -> dict[str, Score]:
    """One score for each value of `key`, in the order in which they first appear."""
    groups: dict[str, list[Answer]] = {}
    for each in answers:
        groups.setdefault(key(each), []).append(each)
    return {name: score(rows) for name, rows in groups.items()}
