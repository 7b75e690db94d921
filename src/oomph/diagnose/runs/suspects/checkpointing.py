"""Activation checkpointing: what forward keeps, or computes again."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, switched


class Checkpointing(Kind):
    """Whether activations are kept."""

    name = "checkpointing"
    order = 22
    keys = (
        argument("gradient_checkpointing", "activation_checkpointing", "fsdp_activation_checkpointing",
                 "use_checkpoint",
                 "recompute", "recompute_granularity", "activation_offloading",
                 "gradient_checkpointing_kwargs", "ac_mode",
                 "enable_activation_checkpointing"),
        r"arguments\.(?:.+\.)?(?:gradient_checkpointing_kwargs|activation_checkpoint|activation_checkpointing)\..+",
        r"model\.gradient_checkpointing",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """On: block inputs are kept instead of everything; off: all of it."""
        del situation
        if "reentrant" in change.key or "kwargs" in change.key:
            return Judged(
                "reentrant checkpoints keep each block's inputs and need an input that requires a gradient; the "
                "others keep "
                "what their policy says",
                Suspicion.POSSIBLE,
                phases=("forward", "backward"),
                parts=("forward.kept",),
                weight=4.0,
            )
        direction = -switched(change)
        effect = {
            1: "without checkpoints forward keeps all activations of every block, not the blocks' inputs alone",
            -1: "with checkpoints forward keeps the blocks' inputs alone; backward computes one block at a time again",
            0: "it decides which activations forward keeps",
        }[direction]
        return Judged(
            effect,
            Suspicion.LIKELY,
            direction=direction,
            phases=("forward", "backward"),
            parts=("forward.kept",),
            weight=8.5,
        )
