"""Others on the same card."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion, as_number
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, sign
from oomph.units import format_bytes


class Neighbours(Kind):
    """Memory of processes that are not the job's."""

    name = "neighbours"
    order = 27
    keys = (r"other_processes", r"gpu\.strangers", r"note\.neighbour")

    def judge(self, change: Change, situation: Situation) -> Judged:
        """What others hold is not there for the job."""
        del situation
        before, after = as_number(change.before) or 0, as_number(change.after) or 0
        if change.key == "note.neighbour":
            effect = "a process that is not the job's took memory of the GPU while it ran"
        else:
            effect = (
                f"processes that are not the job's hold {format_bytes(round(after))} of the GPU and held "
                f"{format_bytes(round(before))}; the job needs what it needed, and less is left for it"
            )
        return Judged(
            effect,
            Suspicion.LIKELY if after > before else Suspicion.POSSIBLE,
            direction=sign(after - before),
            parts=("other_processes", "gpu.strangers", "free.least"),
            expected_bytes=round(after - before) if change.key == "other_processes" else None,
            weight=8.0,
        )
