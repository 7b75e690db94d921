"""What repeats in a sequence: how long one repetition is, where the first begins, and whether it gives back what it
takes.

Steps repeat, and so do the layers within one. A step gives back nearly all that it took; the layers of a forward leave
more each time, those of a backward less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.memory.timeline import Kind, Timeline

#: At least this many repetitions: two are chance, three a loop.
TIMES = 3
#: How much more or less may be allocated after a repetition than before, as a part of what it moves up and down.
DRIFT = 0.25
#: At least this part of the values has to be what it was one period before; a few differ (a metric, a log).
_SAME = 0.95
#: How many candidate periods are tried; each costs one comparison of all values.
_TRIED = 24


def period_of(values: NDArray[np.integer], least: int) -> tuple[int, int] | None:
    """(values per repetition, index of the first that repeats) of the shortest repetition of at least `least` values,
    two of them different; None where nothing repeats `TIMES` times."""
    if len(values) < TIMES * least:
        return None
    for period in _candidates(values, least):
        same = values[period:] == values[:-period]
        if np.count_nonzero(same) * 2 < _SAME * len(same):
            continue  # no tail of half the length can be alike
        # What comes before the loop (loading, a warm-up) need not repeat: the longest tail that does.
        bad = np.cumsum(~same[::-1])
        good = np.flatnonzero(bad <= (1 - _SAME) * np.arange(1, len(same) + 1))
        tail = int(good[-1]) + 1 if len(good) else 0
        if tail < period * (TIMES - 1) or tail * 2 < len(same):
            continue
        begin = len(same) - tail
        odd = np.flatnonzero(~same[begin:])
        # Requests of the first step alone (states, workspaces) shift what is compared; the loop is behind them.
        if len(odd) and tail - int(odd[-1]) - 1 >= max(period * (TIMES - 1), tail // 2):
            begin += int(odd[-1]) + 1
        if len(np.unique(values[begin : begin + period])) > 1:
            return period, begin
    return None


def _candidates(values: NDArray[np.integer], least: int) -> list[int]:
    """Distances between equal values that occur seldom, shortest first: what occurs once per repetition has it as its
    distance, and what is rare in one has few others."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    seldom = np.flatnonzero((counts >= TIMES) & (counts * least <= len(values) + least))
    seldom = seldom[np.argsort(counts[seldom], kind="stable")][: _TRIED * 2]
    order = np.argsort(where, kind="stable")
    begins = np.concatenate(([0], np.cumsum(counts)))
    found: dict[int, int] = {}
    for value in seldom.tolist():
        gap = int(np.median(np.diff(order[begins[value] : begins[value + 1]])))
        found[gap] = found.get(gap, 0) + 1
    periods = sorted(found, key=lambda gap: -found[gap])[:_TRIED]
    return sorted(gap for gap in periods if gap >= least)


def levels(timeline: Timeline, positions: NDArray[np.intp], begin: int, period: int) -> tuple[int, float]:
    """(how far behind `begin` a repetition should begin: where the least is allocated, on the average of all; by how
    much the level moves from one to the next, as a part of its range within one). `positions` are those of the
    requests that repeat."""
    sign = np.zeros(len(Kind), np.int64)
    sign[Kind.ALLOC], sign[Kind.FREE_REQUESTED] = 1, -1
    live = np.cumsum(sign[timeline.kind] * timeline.size_bytes)
    # What is alive just before each request.
    before = live[positions[begin:]] - timeline.size_bytes[positions[begin:]]
    rounds = len(before) // period
    by_round = before[: rounds * period].reshape(rounds, period)
    moves = float(np.ptp(by_round, axis=1).mean())
    drift = abs(float(np.diff(by_round.min(axis=1)).mean())) / max(1.0, moves) if rounds > 1 else 1.0
    return int(np.argmin(by_round.mean(axis=0))), drift
