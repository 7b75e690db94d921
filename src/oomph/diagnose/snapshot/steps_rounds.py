"""Steps of a trace whose stacks tell no phase: a sequence of stacks that repeats.

Code that calls its functions neither forward nor step repeats all the same. A stack says more than a size, so that far
shorter repetitions count than where only sizes are known (`steps_period`). What repeats may also be the layers of one
forward pass: a step gives back nearly all that it took, and where a repetition does not, it is only possibly one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How, Steps
from oomph.memory.timeline import Kind, Timeline

Ints = NDArray[np.int64]

#: A repetition has at least so many requests, by at least two stacks.
_LEAST = 3
#: Two repetitions are chance, three a loop; from five on a loop is likely.
_TIMES, _MANY = 3, 5
#: At least this part of the requests has to be made by the stack of one period before.
_SAME = 0.95
#: How much more may be allocated after a repetition than before, as a part of what it moves up and down.
_DRIFT = 0.25
#: So many candidate periods are tried; each costs one comparison of all requests.
_TRIED = 16


def find_rounds(timeline: Timeline, stacks: NDArray[np.int32]) -> Steps | None:
    """Steps by repetition of `stacks`, those of all requests in order; None where they do not repeat or are missing."""
    if len(stacks) < _TIMES * _LEAST or bool((stacks < 0).any()):
        return None
    found = _period(stacks)
    if found is None:
        return None
    period, begin = found
    positions = timeline.positions(Kind.ALLOC)
    offset, drift = _levels(timeline, positions, begin, period)
    firsts = np.arange(begin + offset, len(stacks), period)
    if len(firsts) < _TIMES:
        return None
    rest = len(stacks) - int(firsts[-1])
    sure = len(firsts) >= _MANY and drift <= _DRIFT
    return Steps(
        count=len(firsts) - int(rest * 2 < period),
        how=How.PERIOD,
        certainty=Certainty.LIKELY if sure else Certainty.POSSIBLE,
        why=f"{period} requests repeat with the same stacks; nothing names what a repetition is"
        + ("" if sure else ", a training step or a layer"),
        first_positions=tuple(positions[firsts].tolist()),
    )


def _period(stacks: NDArray[np.int32]) -> tuple[int, int] | None:
    """(requests per repetition, index of the first request that repeats), or None."""
    for period in _candidates(stacks):
        same = stacks[period:] == stacks[:-period]
        # What comes before the loop (loading, the first step's states) need not repeat: the longest tail that does.
        bad = np.cumsum(~same[::-1])
        good = np.flatnonzero(bad <= (1 - _SAME) * np.arange(1, len(same) + 1))
        tail = int(good[-1]) + 1 if len(good) else 0
        if tail < period * (_TIMES - 1) or tail * 2 < len(same):
            continue
        begin = len(same) - tail
        odd = np.flatnonzero(~same[begin:])
        # Requests of the first step alone (states, workspaces) shift what is compared; the loop is behind them.
        if len(odd) and tail - int(odd[-1]) - 1 >= max(period * (_TIMES - 1), tail // 2):
            begin += int(odd[-1]) + 1
        if len(np.unique(stacks[begin : begin + period])) > 1:
            return period, begin
    return None


def _candidates(stacks: NDArray[np.int32]) -> list[int]:
    """Distances between requests of one stack, shortest first; rare stacks are asked first, since what happens once
    in a step has the step as its distance."""
    _, where, counts = np.unique(stacks, return_inverse=True, return_counts=True)
    order = np.argsort(where, kind="stable")
    begins = np.concatenate(([0], np.cumsum(counts)))
    rare = np.flatnonzero(counts >= _TIMES)
    rare = rare[np.argsort(counts[rare], kind="stable")][: 4 * _TRIED]
    found: dict[int, int] = {}
    for value in rare.tolist():
        gap = int(np.median(np.diff(order[begins[value] : begins[value + 1]])))
        if gap >= _LEAST:
            found[gap] = found.get(gap, 0) + 1
    return sorted(sorted(found, key=lambda gap: -found[gap])[:_TRIED])


def _levels(timeline: Timeline, positions: NDArray[np.intp], begin: int, period: int) -> tuple[int, float]:
    """(how far behind `begin` a repetition should begin: where the least is allocated, on the average; by how much
    the level moves from one to the next, as a part of its range within one)."""
    sign = np.zeros(len(Kind), np.int64)
    sign[Kind.ALLOC], sign[Kind.FREE_REQUESTED] = 1, -1
    live = np.cumsum(sign[timeline.kind] * timeline.size_bytes)
    before: Ints = live[positions[begin:]] - timeline.size_bytes[positions[begin:]]
    rounds = len(before) // period
    levels = before[: rounds * period].reshape(rounds, period)
    moves = float(np.ptp(levels, axis=1).mean())
    drift = abs(float(np.diff(levels.min(axis=1)).mean())) / max(1.0, moves) if rounds > 1 else 1.0
    return int(np.argmin(levels.mean(axis=0))), drift
