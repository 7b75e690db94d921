"""Gradient accumulation: gradients live through several forwards."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, is_on, ratio


class Accumulation(Kind):
    """Micro-batches of a step."""

    name = "accumulation"
    order = 11
    keys = (
        argument(
            "gradient_accumulation_steps", "gradient_accumulation", "accumulate_grad_batches", "grad_accum"
        ),
    )

    def judge(self, change: Change, situation: Situation) -> Judged:
        """From 1 to more: gradients are alive in later forwards of a step. Otherwise nothing changes."""
        del situation
        by = ratio(change)
        before, after = str(change.before) not in ("1", "1.0"), str(change.after) not in ("1", "1.0")
        if by is None or before == after or not (is_on(change.before) and is_on(change.after)):
            return Judged(
                "memory does not depend on how many micro-batches a step has, beyond the first",
                Suspicion.UNLIKELY,
            )
        return Judged(
            "with more than one micro-batch a step, the gradients of the first are alive during the next "
            "forward; sharded "
            "gradients may be kept whole until the last",
            Suspicion.POSSIBLE,
            direction=1 if after else -1,
            phases=("forward", "backward"),
            weight=3.0,
        )
