"""Whether memory grows step by step, by the records of one rank."""

from __future__ import annotations

from itertools import pairwise

from oomph.evidence.run.data import RankData

#: The first step makes the optimizer's states; the next is the first that can be compared with one before it.
_FIRST = 1
#: Ends of steps: so many differences in a row are no accident of a batch.
_LEAST_POINTS = 4
#: What a list of losses or a counter may keep for each step (`oomph verify --growth` has the same).
_LEAST_BYTES = 4096


def growth_of(rank: RankData) -> int | None:
    """Bytes that stay behind after each step, on the average of the steps after the first. 0: what is there at the end
    of a step does not grow at every one; None: fewer than four ends of steps are recorded."""
    header = rank.header
    since = header.clock if header is not None else 0.0
    ends = [
        (one.step, one.counters.allocated_bytes)
        for one in rank.steps
        if one.step >= _FIRST and one.clock >= since
    ]
    if len(ends) < _LEAST_POINTS:
        return None
    if any(after[0] <= before[0] or after[1] <= before[1] for before, after in pairwise(ends)):
        return 0
    size = (ends[-1][1] - ends[0][1]) // (ends[-1][0] - ends[0][0])
    return size if size >= _LEAST_BYTES else 0
