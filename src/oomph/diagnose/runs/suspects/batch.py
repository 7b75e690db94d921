"""The micro-batch: what forward keeps for backward, and the logits, grow in proportion to it."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, ratio, sign, times
from oomph.units import format_bytes

TRAINING = ("forward", "backward")


class Batch(Kind):
    """Rows of a micro-batch."""

    name = "batch"
    order = 10
    keys = (
        argument(
            "per_device_train_batch_size", "per_gpu_train_batch_size", "train_batch_size", "batch_size",
            "micro_batch_size", "local_batch_size", "train_micro_batch_size_per_gpu", "mbs", "bs", "devices_batch_size",
            "train_batch_size_per_device", "batch",
        ),
        r"data(?:\.train)?\.loader\.batch_size",
        r"batch\.rows",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """In proportion to what the first run's forward kept."""
        return in_proportion(change, situation, "the micro-batch")


def in_proportion(change: Change, situation: Situation, what: str, weight: float = 9.0) -> Judged:
    """A change that scales everything that forward keeps for backward."""
    by = ratio(change)
    if by is None:
        return Judged(
            f"activations and logits grow in proportion to {what}",
            Suspicion.LIKELY,
            phases=TRAINING,
            parts=("forward.kept",),
            weight=weight,
        )
    kept = situation.bytes_before("forward.kept")
    expected = None if kept is None else round(kept * (by - 1))
    numbers = (
        ""
        if kept is None
        else (
            f": forward kept {format_bytes(kept)}, and {times(by)} times that is {format_bytes(round(kept * by))}"
        )
    )
    return Judged(
        f"activations and logits grow in proportion to {what}, which is {times(by)} times what it was{numbers}",
        Suspicion.LIKELY,
        direction=sign(by - 1),
        phases=TRAINING,
        parts=("forward.kept",),
        expected_bytes=expected,
        weight=weight,
    )
