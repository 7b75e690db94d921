"""Steps of a trace without stacks: a sequence of request sizes that repeats.

A training step asks for the same sizes in the same order each time, as long as batches have one shape. Layers repeat
too. Three things tell a step from a layer: nearly the whole trace repeats, a step asks for many more blocks, and it
gives back what it took, where the layers of a forward leave more each time and those of a backward less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How, Steps
from oomph.memory.timeline import Kind, Timeline

Ints = NDArray[np.int64]

#: A step has at least this many requests. The layers in real snapshots have 53 to 88, whole steps over 1,000.
_LEAST = 100
#: How much more or less may be allocated after a repetition than before, as a part of what it moves up and down.
_DRIFT = 0.25
#: At least this part of the requests has to be what it was one period before; a few differ (a metric, a log).
_SAME = 0.95
#: At least this many repetitions: two are chance, three a loop.
_TIMES = 3
#: How many candidate periods are tried; each costs one comparison of all requests.
_TRIED = 24


def find_period(timeline: Timeline) -> Steps:
    """Steps by repetition, possible at best; none where nothing repeats."""
    positions = timeline.positions(Kind.ALLOC)
    sizes = timeline.size_bytes[positions]
    found = _period(sizes)
    if found is None:
        return _none("the trace has no stacks that tell phases, and its requests do not repeat")
    period, begin = found
    offset, drift = _levels(timeline, positions, begin, period)
    if drift > _DRIFT:
        return _none("what repeats in the trace does not give back what it takes: layers, not steps")
    begin += offset
    firsts = np.arange(begin, len(sizes), period)
    rest = len(sizes) - int(firsts[-1])
    return Steps(
        count=len(firsts) - int(rest * 2 < period),
        how=How.PERIOD,
        certainty=Certainty.POSSIBLE,
        why=f"{period} requests repeat with the same sizes; whether a repetition is a training step is not recorded",
        first_positions=tuple(positions[firsts].tolist()),
    )


def _period(sizes: Ints) -> tuple[int, int] | None:
    """(requests per repetition, index of the first request that repeats), or None."""
    total = len(sizes)
    if total < _TIMES * _LEAST:
        return None
    for period in _candidates(sizes):
        same = sizes[period:] == sizes[:-period]
        # What comes before the loop (loading, a warm-up) need not repeat: the longest tail that does.
        bad = np.cumsum(~same[::-1])
        length = np.arange(1, len(same) + 1)
        good = np.flatnonzero(bad <= (1 - _SAME) * length)
        tail = int(good[-1]) + 1 if len(good) else 0
        if tail < period * (_TIMES - 1) or tail * 2 < len(same):
            continue
        begin = len(same) - tail
        if len(np.unique(sizes[begin : begin + period])) > 1:
            return period, begin
    return None


def _candidates(sizes: Ints) -> list[int]:
    """Distances between equal sizes that occur seldom, shortest first: what occurs once per step has the step as its
    distance, and what is rare in a step has few others."""
    _, where, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    seldom = np.flatnonzero((counts >= _TIMES) & (counts * _LEAST <= len(sizes) + _LEAST))
    if not len(seldom):
        return []
    seldom = seldom[np.argsort(counts[seldom], kind="stable")][: _TRIED * 2]
    order = np.argsort(where, kind="stable")
    begins = np.concatenate(([0], np.cumsum(counts)))
    found: dict[int, int] = {}
    for value in seldom.tolist():
        gaps = np.diff(order[begins[value] : begins[value + 1]])
        found.setdefault(int(np.median(gaps)), 0)
        found[int(np.median(gaps))] += 1
    periods = sorted(found, key=lambda gap: -found[gap])[:_TRIED]
    return sorted(gap for gap in periods if gap >= _LEAST)


def _levels(timeline: Timeline, positions: NDArray[np.intp], begin: int, period: int) -> tuple[int, float]:
    """(how far behind `begin` a step should begin: where the least is allocated, on the average of all repetitions; by
    how much the level moves from one repetition to the next, as a part of its range within one)."""
    sign = np.zeros(len(Kind), np.int64)
    sign[Kind.ALLOC], sign[Kind.FREE_REQUESTED] = 1, -1
    live = np.cumsum(sign[timeline.kind] * timeline.size_bytes)
    # What is alive just before each request.
    before = live[positions[begin:]] - timeline.size_bytes[positions[begin:]]
    rounds = len(before) // period
    levels = before[: rounds * period].reshape(rounds, period)
    moves = np.ptp(levels, axis=1).mean()
    drift = abs(float(np.diff(levels.min(axis=1)).mean())) / max(1.0, float(moves))
    return int(np.argmin(levels.mean(axis=0))), drift


def _none(why: str) -> Steps:
    return Steps(count=0, how=How.NONE, certainty=Certainty.POSSIBLE, why=why)
