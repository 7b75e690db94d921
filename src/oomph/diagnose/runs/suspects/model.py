"""The model itself: its weights, what of it trains, its adapters."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, ratio, sign, times


class Model(Kind):
    """Which model, how large, how much of it trains."""

    name = "model"
    order = 31
    keys = (
        r"model\..+",
        argument("model_name_or_path", "model", "model_name", "pretrained_model_name_or_path", "base_model", "model_id",
                 "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "target_modules", "use_peft",
                 "use_lora",
                 "use_dora", "lora_rank", "freeze\\w*", "train_embeddings", "modules_to_save", "revision", "adapter",
                 "model_revision", "num_layers", "hidden_size", "num_hidden_layers", "vocab_size",
                 "resize_token_embeddings"),
        r"arguments\.(?:.+\.)?(?:model|lora|peft|model_config|lora_config|peft_config)\..+",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Sizes in proportion; another revision or hash may be another model."""
        del situation
        name, by = change.key.rpartition(".")[2], ratio(change)
        if name in (
            "revision",
            "weights",
            "model_revision",
            "transformers_version",
            "lora_alpha",
            "lora_dropout",
        ):
            return Judged(
                "other weights of one architecture take as much; a revision may have changed the configuration "
                "or the stored "
                "type as well",
                Suspicion.POSSIBLE
                if name in ("revision", "weights", "model_revision")
                else Suspicion.UNLIKELY,
                phases=("load",),
                parts=("alive.before",),
                weight=3.0,
            )
        if by is not None and name in ("parameters", "trainable"):
            what = "weights take" if name == "parameters" else "gradients and optimizer state take"
            return Judged(
                f"{what} {times(by)} times what they took",
                Suspicion.LIKELY,
                direction=sign(by - 1),
                phases=("load", "forward", "backward", "optimizer", "save"),
                parts=("alive.before", "alive.between", "alive.added"),
                weight=8.5,
            )
        return Judged(
            "the model decides the bytes of weights, gradients, optimizer state and activations alike",
            Suspicion.LIKELY,
            direction=0 if by is None else sign(by - 1),
            phases=("load", "forward", "backward", "optimizer", "save"),
            parts=("alive.before", "alive.between", "alive.added", "forward.kept"),
            weight=8.0,
        )
