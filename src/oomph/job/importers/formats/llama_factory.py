"""LLaMA-Factory's YAML, and the same keys as flags.

Source of keys and defaults: llamafactory/hparams, llamafactory/model/adapter.py, model_utils/checkpointing.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats import hf_keys
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.training_arguments import KEYS as TRAINING
from oomph.job.importers.formats.training_arguments import finish
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import flag, off, refused, to_flag, to_whole, whole

_SOURCE = "LLaMA-Factory's default"


def _type(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    if name in ("lora", "full"):
        collector.put("given.finetuning", name, key, value)
    else:
        collector.refuse(key, value)


def _stage(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    collector.put("given.stage", name, key, value)
    if name not in ("sft", "pt"):
        collector.refuse(key, value, "it holds or runs more than one model, or generates")


def _attention(collector: Collector, key: str, value: object) -> None:
    names = {
        "auto": "sdpa",
        "disabled": "eager",
        "sdpa": "sdpa",
        "fa2": "flash_attention_2",
        "flash_attention_2": "flash_attention_2",
        "eager": "eager",
        "fa3": "flash_attention_3",
    }
    name = str(value).strip().lower()
    if name in names:
        collector.put("attention", names[name], key, value)
    elif not off(value):
        collector.refuse(key, value)


def _bits(collector: Collector, key: str, value: object) -> None:
    bits = whole(value)
    if bits in (4, 8):
        collector.put("given.bits", bits, key, value)
    elif not off(value):
        collector.refuse(key, value)


def _quantization_method(collector: Collector, key: str, value: object) -> None:
    if not off(value) and str(value).lower() not in ("bnb", "bitsandbytes"):
        collector.refuse(key, value)


def _targets(collector: Collector, key: str, value: object) -> None:
    hf_keys.targets(collector, key, "all-linear" if value == "all" else value)


_KEYS: dict[str, Handler] = {
    "finetuning_type": _type,
    "stage": _stage,
    "cutoff_len": to_whole("batch.sequence"),
    "packing": to_flag("batch.packed"),
    "neat_packing": to_flag("given.neat"),
    "lora_target": _targets,
    "additional_target": hf_keys.modules_to_save,
    "flash_attn": _attention,
    "quantization_bit": _bits,
    "quantization_method": _quantization_method,
    "quantization_type": hf_keys.quant_type,
    "double_quantization": to_flag("method.quantization.double"),
    "disable_gradient_checkpointing": to_flag("given.no_checkpoints"),
    "use_reentrant_gc": to_flag("checkpointing.reentrant"),
    "use_unsloth_gc": to_flag("activation_offload"),
    "enable_liger_kernel": hf_keys.liger,
    "pure_bf16": to_flag("given.pure"),
    "use_muon": to_flag("given.muon"),
    "use_unsloth": refused("unsloth's kernels"),
    "upcast_layernorm": refused("norms in fp32"),
    "upcast_lmhead_output": refused("the head's output in fp32"),
    "shift_attn": refused("shifted sparse attention"),
    "mixture_of_depths": refused(),
    "use_galore": refused(),
    "use_apollo": refused(),
    "use_badam": refused(),
    "use_adam_mini": refused(),
    "use_llama_pro": refused(),
    "use_dft_loss": refused("a loss of its own"),
    "use_asft_loss": refused("a loss of its own, with a second model"),
    "use_eaft_loss": refused("a loss of its own"),
    "use_mca": refused("Megatron"),
    "use_megatron_bridge": refused("Megatron"),
    "use_hyper_parallel": refused(),
    "use_kt": refused("KTransformers: weights on the host"),
    "use_ray": to_flag("given.ignored"),
    "train_from_scratch": to_flag("given.ignored"),
    "resize_vocab": refused("a vocabulary of another size"),
    "fp8": refused("which operations run in fp8 is not said by a job"),
    "freeze_trainable_layers": refused("layers that train"),
    "freeze_language_model": refused("frozen parts of a vision-language model"),
    "image_max_pixels": to_whole("given.ignored"),
}


def read(source: Source) -> Imported:
    """The YAML."""
    collector = Collector("LLaMA-Factory", source.name)
    read_table(collector, source.table)
    return collector.done()


def read_table(collector: Collector, settings: Mapping[str, object]) -> None:
    """Reads the keys of LLaMA-Factory and of TrainingArguments."""
    collector.put("framework.name", "llama-factory", "kind", "LLaMA-Factory")
    plain = dict(settings)
    if str(plain.get("finetuning_type")).lower() != "freeze":
        plain.pop("freeze_trainable_layers", None)
    collector.read(plain, {**TRAINING, **_KEYS}, harmless("training_arguments", "llama_factory"))
    _finish(collector, plain)
    finish(collector, {"load_in_4bit": collector.get("given.bits") is not None})
    collector.values.pop("given.ignored", None)


def _finish(collector: Collector, settings: Mapping[str, object]) -> None:
    lora = collector.get("given.finetuning") in (None, "lora")
    if "finetuning_type" in settings:
        collector.put("given.lora", lora, "finetuning_type", settings["finetuning_type"])
    else:
        collector.default("given.lora", True, f"{_SOURCE} of finetuning_type (lora)")
    if lora:
        collector.default("method.lora.rank", 8, f"{_SOURCE} of lora_rank")
        collector.default("method.lora.targets", ("all-linear",), f"{_SOURCE} of lora_target")
    bits = collector.get("given.bits")
    if bits == 4:
        collector.default("method.quantization.kind", "nf4", f"{_SOURCE} of quantization_type")
        collector.default("method.quantization.double", True, f"{_SOURCE} of double_quantization")
    elif bits == 8:
        collector.put("method.quantization.kind", "int8", "quantization_bit", 8)
        collector.values.pop("method.quantization.double", None)
    collector.default(
        "method.quantization.prepared", False, "LLaMA-Factory casts no norms unless upcast_layernorm is on"
    )
    if "given.no_checkpoints" in collector.values:
        switched_off = bool(collector.get("given.no_checkpoints"))
        mode = "none" if switched_off else "full"
        collector.put("checkpointing.mode", mode, "disable_gradient_checkpointing", switched_off)
    else:
        # gradient_checkpointing of TrainingArguments says nothing here: model_utils/checkpointing.py decides.
        collector.values.pop("checkpointing.mode", None)
        collector.default("checkpointing.mode", "full", f"{_SOURCE} of disable_gradient_checkpointing")
    collector.default("checkpointing.reentrant", True, f"{_SOURCE} of use_reentrant_gc")
    collector.default("batch.sequence", 2048, f"{_SOURCE} of cutoff_len")
    if collector.get("given.neat") or (collector.get("given.stage") == "pt" and "packing" not in settings):
        collector.put(
            "batch.packed", True, "neat_packing" if collector.get("given.neat") else "stage", "packed"
        )
    if not collector.get("batch.packed"):
        collector.default(
            "batch.padding", "longest", "LLaMA-Factory's collator fills up to the longest sample"
        )
    collector.default("attention", "sdpa", f"{_SOURCE} of flash_attn (auto)")
    if collector.get("given.muon"):
        hf_keys.put_optimizer(collector, hf_keys.OPTIMIZERS["muon"], "use_muon", True)
    _finish_weights(collector, lora=lora)


def _finish_weights(collector: Collector, *, lora: bool) -> None:
    """The base is loaded in the dtype of training; what trains is then cast to fp32 (model/adapter.py)."""
    mixed = collector.get("given.mixed")
    if collector.get("given.pure"):
        collector.values.pop("given.mixed", None)
        collector.put("given.weights", "bf16", "pure_bf16", True)
        collector.put("method.lora.dtype", "bf16", "pure_bf16", True)
    elif lora and mixed in ("bf16", "fp16"):
        collector.default("given.weights", mixed, "LLaMA-Factory loads the base in the dtype of training")
    else:
        collector.default("given.weights", "fp32", "LLaMA-Factory casts what trains to fp32")
    if flag(collector.get("activation_offload")):
        collector.note("use_unsloth_gc: the inputs of blocks are kept on the host")
