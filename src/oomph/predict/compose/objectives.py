"""Which code plays a job with an objective of its own."""

from __future__ import annotations

from oomph.predict.compose.generating import compose_generating
from oomph.predict.compose.preference import compose_preference
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step
from oomph.predict.sink import Sink

#: What generates as it trains.
GENERATING = ("grpo", "rloo")


def compose_objective(setup: Setup, sink: Sink, steps: int = 2) -> Step:
    """Plays steps of the job on a sink."""
    if setup.job.objective.name in GENERATING:
        return compose_generating(setup, sink, steps)
    return compose_preference(setup, sink, steps)
