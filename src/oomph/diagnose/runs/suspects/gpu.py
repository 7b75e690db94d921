"""Another GPU: another capacity, other kernels, other workspaces."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, sign
from oomph.units import format_bytes


class Gpu(Kind):
    """The card, and the machine that it is in."""

    name = "gpu"
    order = 26
    keys = (r"gpu\.(?!strangers).+", r"capacity", r"device", r"machine\.(?:type|known_as|provider|model)",
            r"environment\.(?:CUDA|ROCR|HIP|NVIDIA)_VISIBLE_DEVICES", r"environment\.NVIDIA_.*",
            r"environment\.SM_CURRENT_INSTANCE_TYPE")  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Less capacity makes what fitted fail; what is allocated changes little."""
        before, after = situation.number("capacity")
        if before and after and before != after:
            return Judged(
                f"the GPU has {format_bytes(round(after))} and had {format_bytes(round(before))}; what a job "
                f"needs changes "
                "little with it (kernels and workspaces differ), what is left does",
                Suspicion.LIKELY if after < before else Suspicion.POSSIBLE,
                direction=sign(before - after),
                parts=("capacity", "free.least"),
                expected_bytes=None,
                weight=8.0 if after < before else 4.0,
            )
        if "VISIBLE" in change.key:
            return Judged(
                "other cards were visible; which one a rank uses decides what else is on it",
                Suspicion.POSSIBLE,
                parts=("other_processes", "free.least"),
                weight=3.0,
            )
        return Judged(
            "on another GPU attention and matrix products may choose other kernels with other workspaces, and "
            "what lies "
            "outside PyTorch differs",
            Suspicion.POSSIBLE,
            parts=("outside", "free.least"),
            weight=4.5,
        )
