"""The flags of diffusers' training scripts (examples/*/train_*.py).

Source of keys and defaults: diffusers/examples/text_to_image, dreambooth.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats import hf_keys
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler
from oomph.job.importers.values import flag, noted, refused, to_flag, to_whole, whole

_SOURCE = "diffusers' scripts: their default"
_FAMILIAR = ("train_dreambooth", "train_text_to_image")
#: Scripts that let go of text encoders before they train; and of the autoencoder too. Others keep them, though some
#: delete their names: a list still refers to them (train_dreambooth_lora_flux.py).
_WITHOUT_TEXT = frozenset(("train_dreambooth_flux",))
_WITHOUT_BOTH = frozenset(("train_text_to_image_sdxl", "train_dreambooth_lora_flux_miniature"))
#: Scripts that do so where every image has the same prompt.
_WITHOUT_TEXT_OF_ONE = frozenset(("train_dreambooth_sd3", "train_dreambooth_lora_sd3"))


def _eight_bit(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        hf_keys.put_optimizer(collector, ("adamw", "bnb", "int8", "none"), key, value)


def _efficient(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("attention", "sdpa_efficient", key, value)


def _average(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("given.pipeline.ema", True, key, value)


def _validation(collector: Collector, key: str, value: object) -> None:
    """Scripts make one image after the other, whatever num_validation_images says (their log_validation)."""
    if value:
        collector.put("evaluation.batch", 1, key, value)


_KEYS: dict[str, Handler] = {
    "pretrained_model_name_or_path": hf_keys.model_name,
    "train_batch_size": to_whole("batch.micro"),
    "resolution": to_whole("batch.image_size"),
    "gradient_accumulation_steps": to_whole("batch.accumulation"),
    "gradient_checkpointing": hf_keys.checkpointing,
    "mixed_precision": hf_keys.mixed_precision,
    "allow_tf32": to_flag("given.tf32"),
    "use_8bit_adam": _eight_bit,
    "enable_xformers_memory_efficient_attention": _efficient,
    "rank": to_whole("method.lora.rank"),
    "train_text_encoder": refused("a second model that trains"),
    "use_ema": _average,
    "validation_prompt": _validation,
    "validation_prompts": _validation,
    "offload_ema": refused("an average of the weights on the host"),
    "foreach_ema": refused("an average of the weights by foreach"),
    "use_prodigy": refused(),
    "optimizer": refused("another optimizer than AdamW"),
    "lora_layers": hf_keys.targets,
    "lora_dropout": hf_keys.dropout,
    "controlnet_model_name_or_path": refused("a ControlNet beside the model"),
    "cache_latents": noted("the autoencoder is not on the GPU while training"),
}


def read_flags(collector: Collector, flags: Mapping[str, object], script: str = "") -> None:
    """Reads the flags of a command line; `script` is the file that it starts."""
    collector.put("framework.name", "diffusers", "command", "diffusers' flags")
    plain = dict(flags)
    if str(plain.get("optimizer", "")).lower() == "adamw":
        plain.pop("optimizer")
    name = script.rpartition("/")[2].removesuffix(".py")
    tokens = whole(plain.pop("max_sequence_length", None))
    collector.read(plain, _KEYS, harmless("diffusers"))
    _batch(collector, name, tokens, flags)
    collector.default("optimizer.name", "adamw", f"{_SOURCE} of the optimizer")
    collector.default("given.many", "ddp", "accelerate with several processes")
    if "method.lora.rank" in collector.values or "_lora" in name:
        collector.put("given.lora", True, "rank", flags.get("rank"))
        collector.default("method.lora.rank", 4, f"{_SOURCE} of rank")
        # What is frozen is cast to weight_dtype; what trains whole stays fp32.
        collector.put("given.frozen_in_mixed", True, "mixed_precision", "the frozen weights' type")
    if name.startswith("train_") and name not in _WITHOUT_BOTH:
        one_prompt = name in _WITHOUT_TEXT_OF_ONE and not flags.get("caption_column")
        if name not in _WITHOUT_TEXT and not one_prompt:
            collector.default("given.pipeline.text_encoders", True, f"{name}: they stay on the GPU")
        if not flag(flags.get("cache_latents", False)):
            collector.default("given.pipeline.vae", True, f"{name}: it makes the latents of each batch")


def _batch(collector: Collector, name: str, tokens: int | None, flags: Mapping[str, object]) -> None:
    """Images, their size and their prompts' tokens; the defaults are those of the script `name`."""
    collector.default("batch.micro", 16 if "text_to_image" in name else 4, f"{_SOURCE} of train_batch_size")
    if name.startswith(_FAMILIAR):
        collector.default("batch.image_size", 1024 if "sdxl" in name else 512, f"{_SOURCE} of resolution")
    if name == "train_dreambooth_flux":
        collector.default("batch.sequence", 77, f"{_SOURCE} of max_sequence_length")
    if tokens:  # of T5; SD3 has CLIP's beside them
        length = tokens + 77 if name.endswith("_sd3") else tokens
        collector.put("batch.sequence", length, "max_sequence_length", tokens)
    micro = collector.get("batch.micro")
    if flag(flags.get("with_prior_preservation", False)) and isinstance(micro, int):
        collector.put("batch.micro", 2 * micro, "with_prior_preservation", "as many images of the class")
        collector.note("with_prior_preservation: each batch has as many images of the class (collate_fn).")
