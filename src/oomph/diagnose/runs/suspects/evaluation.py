"""Evaluation, generation and saving: phases of their own."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, ratio, sign


class Evaluation(Kind):
    """What evaluation holds."""

    name = "evaluation"
    order = 9
    keys = (
        argument("per_device_eval_batch_size", "eval_batch_size", "per_gpu_eval_batch_size", "eval_accumulation_steps",
                 "eval_strategy", "evaluation_strategy", "eval_steps", "do_eval", "prediction_loss_only",
                 "eval_on_start",
                 "include_for_metrics", "include_inputs_for_metrics", "predict_with_generate", "generation_\\w+",
                 "batch_eval_metrics", "eval_do_concat_batches", "max_new_tokens", "num_beams", "eval_dataset"),
        r"data\.(?:eval|validation|test)(?:\..+)?",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """It moves the peak of evaluation alone."""
        del situation
        by = ratio(change) if "batch" in change.key else None
        return Judged(
            "evaluation has no activations to keep, and logits of every batch until they are moved away "
            "(eval_accumulation_steps): its own peak changes, not that of training",
            Suspicion.LIKELY,
            direction=0 if by is None else sign(by - 1),
            phases=("eval", "generate"),
            weight=5.0,
        )


class Saving(Kind):
    """What saving gathers."""

    name = "saving"
    order = 9
    keys = (
        argument("save_strategy", "save_steps", "save_only_model", "fsdp_state_dict_type", "save_safetensors",
                 "load_best_model_at_end", "save_total_limit", "state_dict_type", "save_on_each_node"),
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """A full state dict is gathered whole."""
        del situation
        full = change.key.rpartition(".")[2] in ("fsdp_state_dict_type", "state_dict_type")
        return Judged(
            "a full state dict is gathered on a rank before it is written, a sharded one is not"
            if full
            else "saving has a peak of its own only where a sharded model is gathered",
            Suspicion.LIKELY if full else Suspicion.UNLIKELY,
            phases=("save",),
            weight=4.0,
        )
