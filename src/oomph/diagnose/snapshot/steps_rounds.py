"""Steps of a trace whose stacks tell no phase: a sequence of stacks that repeats.

Code that calls its functions neither forward nor step repeats all the same. A stack says more than a size, so that far
shorter repetitions count than where only sizes are known (`steps_period`). Where a repetition does not give back what
it takes, it may also be a layer of one forward pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How, Steps
from oomph.diagnose.snapshot.repetition import DRIFT, TIMES, levels, period_of
from oomph.memory.timeline import Kind, Timeline

#: A repetition has at least so many requests, by at least two stacks.
_LEAST = 3
#: Three repetitions are a loop; from five on it is likely one.
_MANY = 5


def find_rounds(timeline: Timeline, stacks: NDArray[np.int32]) -> Steps | None:
    """Steps by repetition of `stacks`, those of all requests in order; None where they do not repeat or are missing."""
    if bool((stacks < 0).any()):
        return None
    found = period_of(stacks, _LEAST)
    if found is None:
        return None
    period, begin = found
    positions = timeline.positions(Kind.ALLOC)
    offset, drift = levels(timeline, positions, begin, period)
    firsts = np.arange(begin + offset, len(stacks), period)
    if len(firsts) < TIMES:
        return None
    rest = len(stacks) - int(firsts[-1])
    sure = len(firsts) >= _MANY and drift <= DRIFT
    return Steps(
        count=len(firsts) - int(rest * 2 < period),
        how=How.PERIOD,
        certainty=Certainty.LIKELY if sure else Certainty.POSSIBLE,
        why=f"{period} requests repeat with the same stacks; nothing names what a repetition is"
        + ("" if sure else ", a training step or a layer"),
        first_positions=tuple(positions[firsts].tolist()),
    )
