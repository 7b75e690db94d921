"""A slope that a few odd values do not move, with its uncertainty.

Theil and Sen's: the median of the slopes of all pairs of points. Its interval is that of the rank statistic of Kendall
(Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63, 1968): with N pairs and
C = z * sqrt(n (n - 1) (2 n + 5) / 18), it reaches from the ((N - C) / 2)-th to the ((N + C) / 2 + 1)-th slope in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Two-sided 99 %: a check that runs in every night of CI should not cry once a fortnight.
Z = 2.576
#: Points that are looked at, at most: 11,000 pairs, for each of maybe a thousand ranks.
_MOST_POINTS = 150


@dataclass(frozen=True)
class Slope:
    """Units of y for one of x: the median, and the ends of its interval."""

    middle: float
    low: float
    high: float
    points: int


def slope(points: Sequence[tuple[float, float]], z: float = Z) -> Slope | None:
    """The slope through the points; None for fewer than three, or where all have one x. Of many points as many as are
    needed are taken, evenly."""
    taken = thinned(points)
    if len(taken) > 2 and len({x for x, _ in taken}) > 1 and len({y for _, y in points}) == 1:
        return Slope(0.0, 0.0, 0.0, len(taken))
    slopes = sorted(
        (b[1] - a[1]) / (b[0] - a[0])
        for place, a in enumerate(taken)
        for b in taken[place + 1 :]
        if b[0] != a[0]
    )
    count = len(taken)
    if count < 3 or not slopes:
        return None
    pairs = len(slopes)
    spread = z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((pairs - spread) / 2) - 1)
    high = min(pairs - 1, math.ceil((pairs + spread) / 2))
    middle = (slopes[(pairs - 1) // 2] + slopes[pairs // 2]) / 2
    return Slope(middle, slopes[low], slopes[high], count)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points, evenly taken, the first and the last among them."""
    count = len(points)
    if count <= _MOST_POINTS:
        return list(points)
    return [points[round(place * (count - 1) / (_MOST_POINTS - 1))] for place in range(_MOST_POINTS)]


def without_largest_jump(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points as if the largest change from one to the next had been no larger than the second largest: one jump (a
    cache that is filled once) is no growth, and what grows step by step grows on as it did."""
    if len(points) < 3:
        return list(points)
    rises = [after[1] - before[1] for before, after in pairwise(points)]
    order = sorted(range(len(rises)), key=lambda place: abs(rises[place]))
    at, second = order[-1], abs(rises[order[-2]])
    excess = rises[at] - second if rises[at] > 0 else rises[at] + second
    return [(x, y - excess if place > at else y) for place, (x, y) in enumerate(points)]


def new_highs(points: Sequence[tuple[float, float]]) -> int:
    """How often the values went above all before."""
    count, most = 0, points[0][1] if points else 0.0
    for _, y in points:
        if y > most:
            count, most = count + 1, y
    return count
