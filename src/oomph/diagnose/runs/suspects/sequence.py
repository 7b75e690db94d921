"""The length of samples: activations and logits grow with it, eager attention with its square."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, switched
from oomph.diagnose.runs.suspects.batch import TRAINING, in_proportion


class Sequence(Kind):
    """How long samples may be."""

    name = "sequence"
    order = 12
    keys = (
        argument(
            "max_seq_length", "max_length", "seq_length", "seq_len", "sequence_length", "sequence_len", "cutoff_len",
            "block_size", "model_max_length", "max_seq_len", "context_length", "max_source_length", "max_prompt_length",
            "max_completion_length", "max_target_length", "n_ctx", "seq", "resolution", "image_size", "num_generations",
        ),
        r"batch\.length",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """In proportion; eager attention more than that."""
        return in_proportion(change, situation, "the length of samples", 8.5)


class Padding(Kind):
    """How samples are brought to one length."""

    name = "padding"
    order = 13
    keys = (
        argument(
            "packing", "sample_packing", "pad_to_max_length", "padding", "padding_free", "group_by_length",
            "pad_to_multiple_of", "eval_packing", "packing_strategy", "dynamic_batching", "truncation",
        ),
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """It decides how long the longest batch is."""
        del situation
        return Judged(
            "it decides how long batches become: packed or padded ones are always as long as allowed, others as "
            "long as "
            "their longest sample; sorting by length puts the longest batch at one moment",
            Suspicion.LIKELY,
            direction=switched(change)
            if change.key.rpartition(".")[2] in ("pad_to_max_length", "packing")
            else 0,
            phases=TRAINING,
            parts=("forward.kept",),
            weight=6.0,
        )
