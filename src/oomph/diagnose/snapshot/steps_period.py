"""Steps of a trace without stacks: a sequence of request sizes that repeats.

A training step asks for the same sizes in the same order each time, as long as batches have one shape. Layers repeat
too. Three things tell a step from a layer: nearly the whole trace repeats, a step asks for many more blocks, and it
gives back what it took.
"""

from __future__ import annotations

import numpy as np

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How, Steps
from oomph.diagnose.snapshot.repetition import DRIFT, levels, period_of
from oomph.memory.timeline import Kind, Timeline

#: A step has at least this many requests. The layers in real snapshots have 53 to 88, whole steps over 1,000.
_LEAST = 100


def find_period(timeline: Timeline) -> Steps:
    """Steps by repetition, possible at best; none where nothing repeats."""
    positions = timeline.positions(Kind.ALLOC)
    found = period_of(timeline.size_bytes[positions], _LEAST)
    if found is None:
        return _none("the trace has no stacks that tell phases, and its requests do not repeat")
    period, begin = found
    offset, drift = levels(timeline, positions, begin, period)
    if drift > DRIFT:
        return _none("what repeats in the trace does not give back what it takes: layers, not steps")
    firsts = np.arange(begin + offset, len(positions), period)
    rest = len(positions) - int(firsts[-1])
    return Steps(
        count=len(firsts) - int(rest * 2 < period),
        how=How.PERIOD,
        certainty=Certainty.POSSIBLE,
        why=f"{period} requests repeat with the same sizes; whether a repetition is a training step is not recorded",
        first_positions=tuple(positions[firsts].tolist()),
    )


def _none(why: str) -> Steps:
    return Steps(count=0, how=How.NONE, certainty=Certainty.POSSIBLE, why=why)
