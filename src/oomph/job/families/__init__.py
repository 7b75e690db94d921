"""Model families: what the numbers of a config.json make of tensors.

One file holds the families that share keys and parts. Each gives `DEFAULTS` (by model_type: what transformers' own
configuration class puts for keys that a config.json leaves out), `dimensions` and `build`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from oomph.errors import UsageError
from oomph.job.families.architecture import Architecture, Kind, Parameter
from oomph.job.families.build import Reader
from oomph.job.model import Framework, Model

__all__ = ["FAMILIES", "Architecture", "Kind", "Parameter", "architecture", "dimensions", "major_of"]

#: The file of each family (config.json's model_type, diffusers' `_class_name`); imported when one is asked for.
FAMILIES = {
    "DiTTransformer2DModel": "denoisers",
    "FluxTransformer2DModel": "denoisers",
    "SD3Transformer2DModel": "denoisers",
    "UNet2DConditionModel": "unet",
    "arcee": "others",
    "bart": "bart",
    "bert": "bert",
    "bloom": "alibi",
    "clip": "vision",
    "clip_text_model": "vision",
    "clip_vision_model": "vision",
    "cohere": "others",
    "cohere2": "others",
    "deberta-v2": "bert",
    "deepseek_v2": "mla",
    "deepseek_v3": "mla",
    "distilbert": "bert",
    "falcon": "alibi",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "seeing",
    "gemma3_text": "gemma",
    "glm": "others",
    "glm4": "others",
    "gpt2": "gpt",
    "gpt_bigcode": "gpt",
    "gpt_neox": "gpt",
    "gpt_oss": "moe",
    "gptj": "gpt",
    "granite": "llama",
    "llama": "llama",
    "llava": "seeing",
    "mistral": "llama",
    "mixtral": "moe",
    "modernbert": "bert",
    "nemotron": "others",
    "olmo": "llama",
    "olmo2": "llama",
    "olmo3": "llama",
    "olmoe": "moe",
    "opt": "opt",
    "phi": "phi",
    "phi3": "phi",
    "qwen2": "llama",
    "qwen2_5_vl": "seeing",
    "qwen2_moe": "moe",
    "qwen2_vl": "seeing",
    "qwen3": "llama",
    "qwen3_moe": "moe",
    "roberta": "bert",
    "seed_oss": "others",
    "siglip": "vision",
    "siglip_vision_model": "vision",
    "smollm3": "llama",
    "stablelm": "phi",
    "starcoder2": "phi",
    "t5": "t5",
    "vit": "vision",
    "xlm-roberta": "bert",
}


def dimensions(model: Model) -> dict[str, int]:
    """The numbers that the sizes of a model's tensors are made of, under names that all families share.

    layers, hidden, intermediate, heads, kv_heads, head_dim, vocab and positions, as far as the family has them, and
    what it has beside. Raises UsageError for a family that is not known, and for numbers that are missing or fit
    together in no model.
    """
    return dict(_read(model)[1])


def major_of(framework: Framework) -> int:
    """The major version of transformers whose classes a framework of these versions trains: that of transformers where
    it is given, 4 for frameworks whose own classes keep experts in modules, else the current one."""
    version = framework.version("transformers")
    if version is not None:
        return version[0]
    # litgpt/model.py: LLaMAMoE has a ModuleList of feed-forwards
    return 4 if framework.name.lower() in ("litgpt", "thunder", "lightning-thunder") else 5


@lru_cache(maxsize=256)
def architecture(model: Model, major: int = 5) -> Architecture:
    """Every parameter of a model as its class in transformers registers it; `major` is the major version.

    Since 5, a layer's experts are tensors that hold all of them: no linear modules, so that neither adapters nor
    bitsandbytes take them. Before, each expert was a module with three linears. Names of parts outside the language
    models are those of 5. Raises UsageError as `dimensions` does.
    """
    read, dims, module = _read(model)
    if major != read.major:
        read = replace(read, major=major)
    parts = module.build(read, dims)
    return Architecture(
        model.family,
        tuple(parts.parameters),
        parts.embedding_name,
        parts.head_name,
        parts.learned_positions,
    )


@lru_cache(maxsize=256)
def _read(model: Model) -> tuple[Reader, dict[str, int], Any]:
    file = FAMILIES.get(model.family)
    if file is None:
        what = f"The model family {model.family!r}" if model.family else "A model without a model_type"
        named = f" (of {model.name})" if model.name else ""
        raise UsageError(
            f"unsupported: {what}{named} is not one that oomph knows by its dimensions; "
            "`oomph trace` measures any model from its code."
        )
    module = import_module(f"oomph.job.families.{file}")
    read = Reader(model, module.DEFAULTS[model.family])
    return read, module.dimensions(read), module
