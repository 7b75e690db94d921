"""Language models that see: LLaVA, Qwen2-VL, Qwen2.5-VL, Gemma 3 with its image encoder."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from oomph.errors import UsageError
from oomph.job.families.build import Parts, Reader
from oomph.job.families.vision import DEFAULTS as VISION_DEFAULTS
from oomph.job.families.vision import tower, tower_dimensions
from oomph.job.model import Dimension, Model

__all__ = ["DEFAULTS", "build", "dimensions"]

_QWEN_TEXT: dict[str, object] = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "gemma3": {"tie_word_embeddings": True},
    "llava": {"tie_word_embeddings": False, "multimodal_projector_bias": True, "vision_feature_layer": -2},
    "qwen2_5_vl": {"tie_word_embeddings": False},
    "qwen2_vl": {"tie_word_embeddings": False},
}
#: What the text model is where its configuration names no model_type, and the file that knows it.
_TEXT = {"gemma3": "gemma3_text", "llava": "llama", "qwen2_5_vl": "qwen2", "qwen2_vl": "qwen2"}
_FILES = {"gemma3_text": "gemma", "llama": "llama", "mistral": "llama", "qwen2": "llama", "gemma": "gemma"}
_QWEN_VISION: dict[str, object] = {
    "depth": 32,
    "num_heads": 16,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "hidden_size": 3584,
}
_QWEN: dict[str, dict[str, object]] = {
    "qwen2_vl": {**_QWEN_VISION, "embed_dim": 1280, "mlp_ratio": 4},
    "qwen2_5_vl": {**_QWEN_VISION, "intermediate_size": 3420, "out_hidden_size": 3584},
}


def _language(read: Reader) -> tuple[Reader, Any]:
    """The text model's reader, and the module of its family. Qwen's older files have its keys beside vision_config."""
    family, prefix = read.model.family, "text_config."
    nested = [each for each in read.model.config if each.key.startswith(prefix)]
    pairs = {each.key.removeprefix(prefix): each.value for each in nested}
    if not nested and family.startswith("qwen"):
        pairs = {each.key: each.value for each in read.model.config if "." not in each.key}
    text = _TEXT[family]
    named = pairs.get("model_type")
    if family == "llava" and isinstance(named, str):
        text = named
    if text not in _FILES:
        raise UsageError(
            f"unsupported: {read.who} with a text model of the family {text!r}; `oomph trace` measures any model from "
            "its code."
        )
    # LlavaConfig, Qwen2VLConfig: tied where either configuration says so
    pairs["tie_word_embeddings"] = (
        read.switch("tie_word_embeddings") or pairs.get("tie_word_embeddings") is True
    )
    pairs.pop("architectures", None)
    config = tuple(Dimension(key=key, value=pairs[key]) for key in sorted(pairs))
    module = import_module(f"oomph.job.families.{_FILES[text]}")
    defaults = _QWEN_TEXT if family.startswith("qwen") else module.DEFAULTS[text]
    return Reader(Model(name=read.model.name, family=text, config=config), defaults, major=read.major), module


def _vision(read: Reader) -> tuple[Reader, bool]:
    """The image encoder's reader, and whether it is SigLIP's."""
    family = read.model.family
    if family in _QWEN:
        return replace(read, prefix="vision_config.", defaults=_QWEN[family]), False
    named = read.text("vision_config.model_type")
    kind = named or ("siglip_vision_model" if family == "gemma3" else "clip_vision_model")
    if kind not in ("clip_vision_model", "siglip_vision_model"):
        raise UsageError(
            f"unsupported: {read.who} with an image encoder of the family {kind!r}; `oomph trace` measures any model "
            "from its code."
        )
    return replace(
        read, prefix="vision_config.", defaults=VISION_DEFAULTS[kind]
    ), kind == "siglip_vision_model"


def _qwen_dimensions(read: Reader) -> dict[str, int]:
    """Qwen2VisionTransformer. Its images have any size, so that there is no number of patches."""
    older = read.prefix and read.model.family == "qwen2_vl"
    hidden, heads = read.number("embed_dim" if older else "hidden_size"), read.number("num_heads")
    return {
        "layers": read.number("depth"),
        "hidden": hidden,
        "intermediate": hidden * read.number("mlp_ratio") if older else read.number("intermediate_size"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": read.divided("the hidden size", "num_heads", hidden, heads),
        "patch": read.number("patch_size", "spatial_patch_size"),
        "channels": read.number("in_channels", "in_chans"),
        "frames": read.number("temporal_patch_size"),
        "merge": read.number("spatial_merge_size"),
        "out": read.number("hidden_size" if older else "out_hidden_size"),
    }


def dimensions(read: Reader) -> dict[str, int]:
    """Those of the text model and, as `vision_...`, those of the image encoder."""
    language, module = _language(read)
    dims: dict[str, int] = module.dimensions(language)
    sight, _ = _vision(read)
    seen = _qwen_dimensions(sight) if read.model.family in _QWEN else tower_dimensions(sight)
    return dims | {f"vision_{key}": value for key, value in seen.items()}


def _qwen_tower(parts: Parts, dims: dict[str, int], newer: bool) -> None:
    hidden, wide = dims["hidden"], dims["intermediate"]
    kernel = (dims["frames"], dims["patch"], dims["patch"])
    parts.conv("patch_embed.proj", dims["channels"], hidden, kernel)
    with parts.under("blocks", range(dims["layers"])):
        parts.norm("norm1", hidden, bias=not newer)
        parts.norm("norm2", hidden, bias=not newer)
        parts.linear("attn.qkv", hidden, 3 * hidden, bias=True)
        parts.linear("attn.proj", hidden, hidden, bias=True)
        if newer:
            parts.linear("mlp.gate_proj", hidden, wide, bias=True)
            parts.linear("mlp.up_proj", hidden, wide, bias=True)
            parts.linear("mlp.down_proj", wide, hidden, bias=True)
        else:
            parts.linear("mlp.fc1", hidden, wide, bias=True)
            parts.linear("mlp.fc2", wide, hidden, bias=True)
    merged = hidden * dims["merge"] ** 2
    parts.norm("merger.ln_q", hidden, bias=not newer)
    parts.linear("merger.mlp.0", merged, merged, bias=True)
    parts.linear("merger.mlp.2", merged, dims["out"], bias=True)


def _sight(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    """The image encoder and what brings its result to the text model's width."""
    family = read.model.family
    seen = {key.removeprefix("vision_"): value for key, value in dims.items() if key.startswith("vision_")}
    if family in _QWEN:
        with parts.under("model.visual"):
            _qwen_tower(parts, seen, newer=family == "qwen2_5_vl")
        return
    sight, siglip = _vision(read)
    with parts.under("model.vision_tower"):
        tower(parts, sight, seen, siglip)
    with parts.under("model.multi_modal_projector"):
        if family == "gemma3":
            parts.add("mm_input_projection_weight", seen["hidden"], dims["hidden"])
            parts.norm("mm_soft_emb_norm", seen["hidden"])
            return
        layer = read.raw("vision_feature_layer")
        features = seen["hidden"] * (len(layer) if isinstance(layer, tuple) else 1)
        bias = read.switch("multimodal_projector_bias")
        parts.linear("linear_1", features, dims["hidden"], bias=bias)
        parts.linear("linear_2", dims["hidden"], dims["hidden"], bias=bias)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters: the image encoder's, then the text model's under `model.language_model`."""
    parts = Parts()
    _sight(parts, read, dims)
    language, module = _language(read)
    text: Parts = module.build(language, {key: value for key, value in dims.items() if "vision" not in key})
    for one in text.parameters:
        parts.parameters.append(replace(one, name=_inside(one.name), tied=_inside(one.tied)))
    parts.embedding_name, parts.head_name = _inside(text.embedding_name), text.head_name
    parts.learned_positions = text.learned_positions
    return parts


def _inside(name: str) -> str:
    return f"model.language_model.{name.removeprefix('model.')}" if name.startswith("model.") else name
