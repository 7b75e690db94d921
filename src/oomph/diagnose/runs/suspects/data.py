"""The data set, and the longest batch that came of it."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument
from oomph.diagnose.runs.suspects.batch import TRAINING, in_proportion


class LongestBatch(Kind):
    """The largest batch that was seen."""

    name = "longest batch"
    order = 14
    keys = (r"batch\.elements", r"batch\.longest")

    def judge(self, change: Change, situation: Situation) -> Judged:
        """In proportion to its elements."""
        if change.key == "batch.elements":
            return in_proportion(change, situation, "the longest batch that was seen", 8.0)
        return Judged(
            "the longest batch that was seen has another shape",
            Suspicion.LIKELY,
            phases=TRAINING,
            parts=("forward.kept",),
            weight=7.0,
        )


class DataSet(Kind):
    """What is trained on."""

    name = "data"
    order = 15
    keys = (
        r"data(?:\..+)?",
        argument("dataset_name", "dataset", "dataset_path", "train_file", "data_path", "datasets", "dataset_config",
                 "dataset_config_name", "dataset_split", "validation_file", "data_dir", "train_data_dir",
                 "max_train_samples", "streaming"),
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Another data set has another longest sample: where the batches' shapes are known, they say whether it has."""
        before, after = situation.number("batch.elements")
        if change.key.endswith((".loader.num_workers", ".loader.pin_memory", ".loader.prefetch_factor")):
            return Judged(
                "it costs main memory, not the GPU's", Suspicion.UNLIKELY, parts=("host.rss", "host.pinned")
            )
        if before is not None and after is not None and before == after:
            return Judged(
                f"another data set may have longer samples; the longest batch that was seen has as many "
                f"elements as before "
                f"({after:,.0f})",
                Suspicion.POSSIBLE,
                phases=TRAINING,
                parts=("forward.kept",),
                weight=4.0,
            )
        seen = (
            ""
            if before is None or after is None
            else (f": the longest batch that was seen went from {before:,.0f} to {after:,.0f} elements")
        )
        return Judged(
            f"another data set has another longest sample, which decides the peak{seen}",
            Suspicion.LIKELY,
            direction=0 if before is None or after is None else (after > before) - (after < before),
            phases=TRAINING,
            parts=("forward.kept",),
            weight=7.5 if change.key.endswith("fingerprint") else 6.5,
        )
