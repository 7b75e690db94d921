"""From a predicted number to the interval in which the measured one lies.

Two things make a prediction unsure, and they are kept apart:

- *Which code runs.* Where a job does not say its framework or version, the plan is computed for every variant that is
  plausible; the interval reaches from the lowest to the highest of them.
- *What no variant models.* Residuals of predictions against published measurements, taken from points to which nothing
  was fitted. They are kept per counter and per situation (`BANDS`), as the share by which the counter was found below
  and above the prediction. No band knows a model, a row or a source.

`python benchmarks/accuracy.py --points FILE --calibrate` prints the bands that follow from measured points; how is
written in docs/plan-accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from oomph.job.model import Job

#: allocated: `torch.cuda.max_memory_allocated`; end_allocated: allocated after the optimizer's step; active: allocated
#: and what waits for another stream; reserved: `torch.cuda.max_memory_reserved`; device: the card, with the context.
Counter = Literal["allocated", "end_allocated", "active", "reserved", "device"]
#: known: one rank or replicas of code whose framework is named. unknown: nobody said whose code it is. compiled:
#: torch.compile decides what is kept. sharded: FSDP, ZeRO, tensor, context or pipeline parallel.
Situation = Literal["known", "unknown", "compiled", "sharded"]


@dataclass(frozen=True)
class Band:
    """How far a measured number may lie below and above its prediction, as shares of the prediction."""

    below: float
    above: float

    def __post_init__(self) -> None:
        """Raises ValueError for shares that make no interval."""
        if self.below < 0 or self.below >= 1 or self.above < 0:
            raise ValueError("A band's shares are not below 0, and what lies below is less than the whole.")


#: Printed by `benchmarks/accuracy.py --calibrate` on 72 published points of 15 sources; compiled: on these and those of
#: benchmarks/points together, 9 sources. Code that nobody named: on the same points without their framework, and no
#: surer than code that is known (reserved: both bands together, for lack of such points).
BANDS: Mapping[tuple[Counter, Situation], Band] = {
    ("allocated", "known"): Band(0.015, 0.025),
    ("allocated", "sharded"): Band(0.015, 0.025),
    ("allocated", "compiled"): Band(0.09, 0.03),
    ("allocated", "unknown"): Band(0.015, 0.08),
    ("reserved", "known"): Band(0.05, 0.05),
    ("reserved", "sharded"): Band(0.05, 0.05),
    ("reserved", "compiled"): Band(0.05, 0.05),
    ("reserved", "unknown"): Band(0.065, 0.13),
    ("end_allocated", "known"): Band(0.02, 0.02),
    ("end_allocated", "sharded"): Band(0.02, 0.02),
    ("end_allocated", "compiled"): Band(0.02, 0.02),
    ("end_allocated", "unknown"): Band(0.355, 0.355),
}
#: Counters of which too little is published to have a band of their own take another's.
_LIKE: Mapping[Counter, Counter] = {"active": "allocated", "device": "reserved"}


def situation(job: Job) -> Situation:
    """Which of the situations a job is in. Code that nobody named outweighs the rest, then compilation."""
    if not job.framework.name:
        return "unknown"
    if job.compile:
        return "compiled"
    parallel = job.parallel
    split = parallel.tensor * parallel.context * parallel.pipeline > 1
    return "sharded" if split or parallel.strategy not in ("none", "ddp") else "known"


def band(counter: Counter, where: Situation = "known") -> Band:
    """The band of a counter in a situation."""
    return BANDS[_LIKE.get(counter, counter), where]


def widen(
    point_bytes: int, counter: Counter, where: Situation = "known", variants: Iterable[int] = ()
) -> tuple[int, int]:
    """The interval of a prediction, in bytes: from the lowest of the point and its `variants` less the band's lower
    share, to the highest plus the upper one. It always holds the point.

    Raises ValueError for a size below 0.
    """
    sizes = (point_bytes, *variants)
    if min(sizes) < 0:
        raise ValueError("A predicted size is below 0.")
    its = band(counter, where)
    return math.floor(min(sizes) * (1 - its.below)), math.ceil(max(sizes) * (1 + its.above))
