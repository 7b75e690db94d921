"""Image encoders: ViT, and CLIP and SigLIP with their text encoders."""

from __future__ import annotations

from dataclasses import replace

from oomph.errors import UsageError
from oomph.job.families.build import Parts, Reader

__all__ = ["DEFAULTS", "build", "dimensions", "tower", "tower_dimensions"]

_TEXT: dict[str, object] = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
}
_VISION: dict[str, object] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 16,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "clip": {"projection_dim": 512},
    "clip_text_model": _TEXT,
    "clip_vision_model": {**_VISION, "patch_size": 32},
    "siglip": {},
    "siglip_text_model": {
        **_TEXT,
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "max_position_embeddings": 64,
    },
    "siglip_vision_model": {**_VISION, "vision_use_head": True},
    "vit": {**_VISION, "qkv_bias": True},
}
_TOWERS = {"clip": "clip_vision_model", "siglip": "siglip_vision_model"}


def _encoder(read: Reader) -> dict[str, int]:
    hidden, heads = read.number("hidden_size"), read.number("num_attention_heads")
    return {
        "layers": read.number("num_hidden_layers"),
        "hidden": hidden,
        "intermediate": read.number("intermediate_size"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": read.divided("hidden_size", "num_attention_heads", hidden, heads),
    }


def _side(read: Reader, key: str) -> tuple[int, int]:
    """Height and width, of which most configurations give one number."""
    value = read.raw(key)
    if isinstance(value, tuple):
        both = read.numbers(key)
        if len(both) != 2 or not all(both):
            raise UsageError(f"{read.prefix}{key} of {read.who} must be one side or two.")
        return both[0], both[1]
    side = read.number(key)
    return side, side


def tower_dimensions(read: Reader) -> dict[str, int]:
    """The dimensions of an image encoder; `image` and `patch` are sides in pixels (heights where they differ),
    `patches` how many patches an image has."""
    (height, width), (tall, wide) = _side(read, "image_size"), _side(read, "patch_size")
    return {
        **_encoder(read),
        "image": height,
        "patch": tall,
        "patch_width": wide,
        "channels": read.number("num_channels"),
        "patches": (height // tall) * (width // wide),
    }


def _nested(read: Reader, name: str, family: str) -> Reader:
    """The reader of a part's configuration."""
    return replace(read, prefix=f"{name}.", defaults=DEFAULTS[family])


def dimensions(read: Reader) -> dict[str, int]:
    """Those of the image encoder, or for CLIP and SigLIP those of the text encoder and, as `vision_...`, those of the
    image encoder."""
    family = read.model.family
    if family == "clip_text_model" or family in _TOWERS:
        nested = family in _TOWERS
        text = _nested(read, "text_config", f"{family}_text_model") if nested else read
        dims = {**_encoder(text), "vocab": text.number("vocab_size")}
        dims["positions"] = text.number("max_position_embeddings")
        if nested:
            seen = tower_dimensions(_nested(read, "vision_config", _TOWERS[family]))
            dims |= {f"vision_{key}": value for key, value in seen.items()}
            dims["projection"] = read.number("projection_dim") if family == "clip" else dims["hidden"]
        return dims
    return tower_dimensions(read)


def _layers(parts: Parts, dims: dict[str, int], siglip: bool) -> None:
    """CLIPEncoderLayer and SiglipEncoderLayer: they register the same parts in another order."""
    hidden, wide = dims["hidden"], dims["intermediate"]
    with parts.under("encoder.layers", range(dims["layers"])):
        if siglip:
            parts.norm("layer_norm1", hidden, bias=True)
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            parts.linear(f"self_attn.{name}", hidden, hidden, bias=True)
        parts.norm("layer_norm2" if siglip else "layer_norm1", hidden, bias=True)
        parts.linear("mlp.fc1", hidden, wide, bias=True)
        parts.linear("mlp.fc2", wide, hidden, bias=True)
        if not siglip:
            parts.norm("layer_norm2", hidden, bias=True)


def tower(parts: Parts, read: Reader, dims: dict[str, int], siglip: bool) -> None:
    """CLIPVisionModel or SiglipVisionModel, under the prefix that `parts` has."""
    hidden = dims["hidden"]
    if not siglip:
        parts.add("embeddings.class_embedding", hidden)
    parts.conv(
        "embeddings.patch_embedding",
        dims["channels"],
        hidden,
        (dims["patch"], dims["patch_width"]),
        bias=siglip,
    )
    parts.embedding("embeddings.position_embedding", dims["patches"] + (0 if siglip else 1), hidden)
    if not siglip:
        parts.norm("pre_layrnorm", hidden, bias=True)
    _layers(parts, dims, siglip)
    parts.norm("post_layernorm", hidden, bias=True)
    if siglip and read.switch("vision_use_head"):
        with parts.under("head"):
            parts.add("probe", 1, 1, hidden)
            parts.add("attention.in_proj_weight", 3 * hidden, hidden)
            parts.add("attention.in_proj_bias", 3 * hidden)
            parts.linear("attention.out_proj", hidden, hidden, bias=True)
            parts.norm("layernorm", hidden, bias=True)
            parts.linear("mlp.fc1", hidden, dims["intermediate"], bias=True)
            parts.linear("mlp.fc2", dims["intermediate"], hidden, bias=True)


def _text(parts: Parts, dims: dict[str, int], siglip: bool) -> None:
    parts.tokens("embeddings.token_embedding", dims["vocab"], dims["hidden"])
    parts.positions("embeddings.position_embedding", dims["positions"], dims["hidden"])
    _layers(parts, dims, siglip)
    parts.norm("final_layer_norm", dims["hidden"], bias=True)


def _pair(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    """CLIPModel or SiglipModel."""
    siglip = read.model.family == "siglip"
    seen = {key.removeprefix("vision_"): value for key, value in dims.items() if key.startswith("vision_")}
    parts.add("logit_scale", *((1,) if siglip else ()))
    if siglip:
        parts.add("logit_bias", 1)
    with parts.under("text_model"):
        _text(parts, dims, siglip)
        if siglip:
            text = _nested(read, "text_config", "siglip_text_model")
            parts.linear(
                "head", dims["hidden"], text.optional("projection_size") or dims["hidden"], bias=True
            )
    with parts.under("vision_model"):
        tower(parts, _nested(read, "vision_config", _TOWERS[read.model.family]), seen, siglip)
    if not siglip:
        parts.linear("visual_projection", seen["hidden"], dims["projection"])
        parts.linear("text_projection", dims["hidden"], dims["projection"])


def _vit(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    hidden, wide, bias = dims["hidden"], dims["intermediate"], read.switch("qkv_bias")
    bare = read.architecture.endswith("Model")
    if read.architecture and not bare and not read.architecture.endswith("ForImageClassification"):
        raise UsageError(
            f"unsupported: the head of {read.architecture} is not one that oomph knows; `oomph trace` measures any "
            "model from its code."
        )
    old = read.major < 5
    with parts.under("" if bare else "vit"):
        parts.add("embeddings.cls_token", 1, 1, hidden)
        parts.add("embeddings.position_embeddings", 1, dims["patches"] + 1, hidden)
        sides = (dims["patch"], dims["patch_width"])
        parts.conv("embeddings.patch_embeddings.projection", dims["channels"], hidden, sides, bias=True)
        with parts.under("encoder.layer" if old else "layers", range(dims["layers"])):
            names = (
                ("attention.query", "attention.key", "attention.value")
                if old
                else ("q_proj", "k_proj", "v_proj")
            )
            for name in names:
                parts.linear(f"attention.{name}", hidden, hidden, bias=bias)
            parts.linear("attention.output.dense" if old else "attention.o_proj", hidden, hidden, bias=True)
            if old:
                parts.linear("intermediate.dense", hidden, wide, bias=True)
                parts.linear("output.dense", wide, hidden, bias=True)
            parts.norm("layernorm_before", hidden, bias=True)
            parts.norm("layernorm_after", hidden, bias=True)
            if not old:
                parts.linear("mlp.fc1", hidden, wide, bias=True)
                parts.linear("mlp.fc2", wide, hidden, bias=True)
        parts.norm("layernorm", hidden, bias=True)
        if bare:
            parts.linear("pooler.dense", hidden, read.optional("pooler_output_size") or hidden, bias=True)
    if not bare:
        parts.head_name = "classifier"
        parts.linear("classifier", hidden, read.labels, bias=True)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, family = Parts(), read.model.family
    if family == "vit":
        _vit(parts, read, dims)
    elif family in _TOWERS:
        _pair(parts, read, dims)
    elif family == "clip_text_model":
        _text(parts, dims, siglip=False)
    else:
        tower(parts, read, dims, siglip=family == "siglip_vision_model")
    return parts
