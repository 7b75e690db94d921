"""PEFT's adapter_config.json, and a printed LoraConfig.

Source of keys and defaults: peft/tuners/lora/config.py.
"""

from __future__ import annotations

from oomph.job.importers.formats import hf_keys
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import refused, to_whole

_OTHERS = {"adalora": "ranks that change", "qalora": "QALoRA"}


def _kind(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower().rsplit(".", 1)[-1]
    if name == "lora":
        collector.put("given.lora", True, key, value)
    else:
        collector.refuse(key, value, _OTHERS.get(name, "only LoRA and DoRA can be said"))


def _base(collector: Collector, key: str, value: object) -> None:
    """The model that the adapters were saved for; a trainer's own word for it comes first."""
    if isinstance(value, str) and value.strip():
        collector.default("model.name", value.strip()[:500], f"PEFT: {key}")


KEYS: dict[str, Handler] = {
    "peft_type": _kind,
    "r": to_whole("method.lora.rank"),
    "target_modules": hf_keys.targets,
    "modules_to_save": hf_keys.modules_to_save,
    "lora_dropout": hf_keys.dropout,
    "use_dora": hf_keys.dora,
    "base_model_name_or_path": _base,
    "rank_pattern": refused("ranks that differ between modules"),
    "layers_to_transform": refused("adapters in some layers only"),
    "layers_pattern": refused("adapters in some layers only"),
    "exclude_modules": refused("modules without adapters"),
    "target_parameters": refused("adapters on parameters"),
    "layer_replication": refused("layers that are used twice"),
    "trainable_token_indices": refused("rows of the embedding that train"),
    "use_qalora": refused("QALoRA"),
    "use_bdlora": refused("block-diagonal adapters"),
    "megatron_config": refused("Megatron's modules"),
    "lora_bias": refused("adapters with a bias"),
    "alora_invocation_tokens": refused("activated LoRA"),
    "eva_config": refused("ranks that change"),
    "arrow_config": refused("Arrow"),
}
HARMLESS = harmless("peft")


def _bias(collector: Collector, key: str, value: object) -> None:
    if value not in (None, "none", False):
        collector.refuse(key, value, "biases of the base model that train")


def read(source: Source) -> Imported:
    """adapter_config.json, or a LoraConfig that was printed."""
    collector = Collector("PEFT", source.name)
    collector.put("given.lora", True, "kind", "LoraConfig")
    collector.read(source.table, {**KEYS, "bias": _bias}, HARMLESS)
    collector.default("method.lora.rank", 8, "LoraConfig's default of r")
    if collector.get("method.lora.targets") is None:
        collector.note(
            "target_modules: PEFT's choice for the model's family is not known here; q_proj and v_proj are taken"
        )
    return collector.done()
