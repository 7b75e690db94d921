"""A planner whose numbers are those that a test chose."""

from __future__ import annotations

from oomph.job.model import Framework, Job
from oomph.phases import Phase
from oomph.predict.model import Outside, PhasePeak, Plan, RankPlan

KNOWN = Job(framework=Framework(name="transformers"))


def peak(phase, allocated, low=None, high=None, reserved=None):
    return PhasePeak(
        phase,
        allocated,
        allocated if low is None else low,
        allocated if high is None else high,
        reserved_bytes=reserved,
        reserved_low_bytes=None if reserved is None else reserved - 10,
        reserved_high_bytes=None if reserved is None else reserved + 10,
    )


def rank(*peaks, end=0, outside=(0, 0)):
    return RankPlan("all ranks", 0, {each.phase: each for each in peaks}, end, Outside(*outside))


def plan(*ranks, fits=None, capacity=None, unsupported=()):
    return Plan(KNOWN, ranks, capacity, fits, None, unsupported=unsupported)


def simple(allocated, **more):
    return plan(rank(peak(Phase.BACKWARD, allocated, allocated - 5, allocated + 5)), **more)
