"""TRL's configurations (SFTConfig and those of its other trainers), printed, saved, or as the YAML of its scripts.

Source of keys and defaults: trl/trainer/base_config.py, sft_config.py, dpo_config.py, grpo_config.py, model_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats import hf_keys, trl_objectives
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.training_arguments import read_arguments
from oomph.job.importers.formats.trl_objectives import OBJECTIVES
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import off, refused, table, to_flag, to_whole

#: Trainers of several models, or of several forward passes: what is only in their configurations, and who they are.
_OTHERS = (
    ("RLOO", ("normalize_advantages", "reward_clip_range")),
    ("GRPO", ("num_generations", "max_completion_length", "num_iterations", "scale_rewards")),
    ("PPO", ("num_ppo_epochs", "missing_eos_penalty", "response_length", "cliprange_value")),
    (
        "DPO",
        (
            "precompute_ref_log_probs",
            "ref_model_mixup_alpha",
            "label_pad_token_id",
            "reference_free",
            "rpo_alpha",
        ),
    ),
    ("KTO", ("desirable_weight", "undesirable_weight")),
    ("ORPO", ("odds_ratio",)),
    ("reward modelling", ("center_rewards_coefficient",)),
)
_NAMES = {
    "sft": "SFT",
    "dpo": "DPO",
    "grpo": "GRPO",
    "kto": "KTO",
    "ppo": "PPO",
    "rloo": "RLOO",
    "orpo": "ORPO",
    "cpo": "CPO",
    "reward": "reward modelling",
    "onlinedpo": "online DPO",
    "gkd": "distillation",
    "xpo": "XPO",
    "prm": "reward modelling",
}


def _model_arguments(collector: Collector, key: str, value: object) -> None:
    settings = table(value)
    keys: dict[str, Handler] = {
        "torch_dtype": hf_keys.loaded_as,
        "dtype": hf_keys.loaded_as,
        "attn_implementation": hf_keys.attention,
        "quantization_config": _quantization,
    }
    collector.read(settings, keys, harmless("trl.model"), parent=f"{key}.")


def _quantization(collector: Collector, key: str, value: object) -> None:
    from oomph.job.importers.formats.bitsandbytes import read_config

    read_config(collector, table(value), parent=f"{key}.")


def _padding_free(collector: Collector, key: str, value: object) -> None:
    if value in (True, "true", "True"):
        collector.put("batch.packed", True, key, value)
        collector.note(f"{key}: sequences are joined without padding; planned is a batch of full length")


_MORE: dict[str, Handler] = {
    "max_length": to_whole("batch.sequence"),
    "packing": to_flag("batch.packed"),
    "padding_free": _padding_free,
    "model_init_kwargs": _model_arguments,
    "use_liger_loss": hf_keys.liger,
    "activation_offloading": to_flag("activation_offload"),
    "router_aux_loss_coef": refused("an auxiliary loss of experts"),
    "use_vllm": refused("vLLM beside the training"),
    "cast_lm_head_to_fp32": refused(),
}


def _is_sft_loss(value: object) -> bool:
    return off(value) or value in ("nll", "dft", "chunked_nll")


def _loss_type(collector: Collector, key: str, value: object) -> None:
    if value != "nll" and not off(value):
        collector.refuse(key, value, "a loss of its own")


def read(source: Source) -> Imported:
    """A configuration of TRL's."""
    collector = Collector("TRL", source.name)
    read_trl(collector, source.table, source.printed.removesuffix("Config").lower())
    return collector.done()


def read_trl(collector: Collector, arguments: Mapping[str, object], trainer: str = "") -> None:
    """Reads arguments of one of TRL's trainers; `trainer` where it is known ("sft")."""
    collector.put("framework.name", "trl", "kind", "TRL")
    name = _NAMES.get(trainer, "" if trainer in ("", "training") else trainer.upper())
    if name in ("", "SFT"):
        name = next((other for other, keys in _OTHERS if any(key in arguments for key in keys)), "SFT")
        if name == "SFT" and not _is_sft_loss(arguments.get("loss_type")):
            name = "DPO"
    more = dict(_MORE)
    if name == "SFT":
        more["loss_type"] = _loss_type
    elif name in OBJECTIVES:
        more |= trl_objectives.keys(name)
    else:
        collector.refuse("trainer", name, "it holds or runs more than one model, or generates")
    read_arguments(collector, arguments, more, ("trl",))
    if name in OBJECTIVES:
        trl_objectives.finish(collector, name, arguments)
    old = "max_seq_length" in arguments
    collector.default(
        "batch.sequence", 1024, f"SFTConfig's default of {'max_seq_length' if old else 'max_length'}"
    )
    if not old:
        # BaseConfig of TRL since 2025 (with `max_length`) turns both on; before, they were TrainingArguments' own.
        if (
            collector.values.get("checkpointing.mode") is None
            or collector.values["checkpointing.mode"].default
        ):
            collector.values.pop("checkpointing.mode", None)
            collector.default("checkpointing.mode", "full", "TRL's default of gradient_checkpointing")
        if not {"bf16", "fp16"} & set(arguments):
            collector.default("given.mixed", "bf16", "TRL's default of bf16")
    if not collector.get("batch.packed") and name == "SFT":
        collector.note("no packing: planned is a batch whose longest sample reaches the maximum length")
        collector.default("batch.padding", "longest", "TRL's collator fills up to the longest sample")
