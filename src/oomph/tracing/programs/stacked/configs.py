"""Fields of transformers' configs for dimensions, and dimensions to record at, of models with several stacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.tracing.programs.dimensions import sets as usual_sets
from oomph.tracing.programs.stacked.cut import LAYERS

Dimensions = Mapping[str, int]
#: Lengths of targets, buckets of relative positions, and what a decoder may have otherwise than its encoder.
_TARGETS = (192, 64, 128, 224, 32, 96)
_BUCKETS = (20, 28, 36, 44, 52, 60)
_DECODERS = (776, 1112, 1384, 1608, 1896, 2264)
#: Classes, rows of relative positions that a layer names (half of its table), and what images are cut into: the width
#: of a square patch and their number along a side.
_CLASSES = (11, 13, 17, 19, 21, 23)
_PATCHES = (8, 24, 40, 56, 16, 32)
_SIDES = (10, 6, 9, 5, 7, 8)
_PROJECTIONS = (344, 408, 456, 504, 568, 632)
_VISION = {
    "vision_heads": (3, 7, 4, 5, 6, 9),
    "vision_head_dim": (56, 48, 64, 80, 96, 32),
    "vision_intermediate": (808, 1144, 1416, 1640, 1928, 2296),
}


def _each(found: list[dict[str, int]], **columns: tuple[int, ...]) -> list[dict[str, int]]:
    for row, each in enumerate(found):
        each["layers"] = LAYERS
        each.update({name: values[row] for name, values in columns.items()})
    return found


def pairs(heads: str, one: bool) -> list[dict[str, int]]:
    """Sources and targets; heads are as wide as they are."""
    return _each(usual_sets(heads, one=one), t=_TARGETS, buckets=_BUCKETS)


def bart_pairs(heads: str, one: bool) -> list[dict[str, int]]:
    """The width is that of all heads; a decoder may have others."""
    found = _each(usual_sets(heads, one=one, hidden=False), t=_TARGETS, decoder_intermediate=_DECODERS)
    for each in found:
        each["decoder_heads"] = each["heads"]
    return found


def t5(dimensions: Dimensions) -> dict[str, Any]:
    """T5's names."""
    return {
        "vocab_size": dimensions["vocab"],
        "d_model": dimensions["hidden"],
        "d_kv": dimensions["head_dim"],
        "d_ff": dimensions["intermediate"],
        "num_layers": dimensions["layers"],
        "num_heads": dimensions["heads"],
        "relative_attention_num_buckets": dimensions["buckets"],
        "decoder_start_token_id": 0,
    }


def bart(dimensions: Dimensions) -> dict[str, Any]:
    """BART's names."""
    return {
        "vocab_size": dimensions["vocab"],
        "max_position_embeddings": dimensions["positions"],
        "d_model": dimensions["hidden"],
        "encoder_layers": dimensions["layers"],
        "encoder_ffn_dim": dimensions["intermediate"],
        "encoder_attention_heads": dimensions["heads"],
        "decoder_layers": dimensions["layers"],
        "decoder_ffn_dim": dimensions["decoder_intermediate"],
        "decoder_attention_heads": dimensions["decoder_heads"],
    }


def deberta_sets(heads: str, one: bool) -> list[dict[str, int]]:
    """The width is that of all heads."""
    return _each(usual_sets(heads, one=one, hidden=False), classes=_CLASSES, buckets=_BUCKETS)


def deberta(dimensions: Dimensions) -> dict[str, Any]:
    """As deberta-v3-base: relative positions in buckets, whose table is normalised; no others."""
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "pooler_hidden_size": dimensions["hidden"],
        "intermediate_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "max_position_embeddings": dimensions["positions"],
        "position_buckets": dimensions["buckets"],
        "num_labels": dimensions["classes"],
        "type_vocab_size": 0,
        "relative_attention": True,
        "max_relative_positions": -1,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "pooler_dropout": 0.0,
    }


def _seeing(found: list[dict[str, int]], classes: int) -> list[dict[str, int]]:
    """Images beside text: `v` tokens of an image, `classes` of them no patches."""
    for each in _each(found, patch=_PATCHES, side=_SIDES, projection=_PROJECTIONS, **_VISION):
        each["image"] = each["side"] * each["patch"]
        each["patches"] = each["side"] ** 2
        each["v"] = each["patches"] + classes
        each["vision_hidden"] = each["vision_heads"] * each["vision_head_dim"]
    return found


def clip_sets(heads: str, one: bool) -> list[dict[str, int]]:
    """Two towers; images have a class token."""
    return _seeing(usual_sets(heads, one=one, hidden=False), 1)


def siglip_sets(heads: str, one: bool) -> list[dict[str, int]]:
    """Two towers of one width; images have no class token."""
    found = _seeing(usual_sets(heads, one=one, hidden=False), 0)
    for each in found:
        # Their contrastive loss multiplies the two results.
        each.update({name: each[name.removeprefix("vision_")] for name in ("vision_hidden", "vision_heads")})
        each["vision_head_dim"] = each["head_dim"]
    return found


def _tower(dimensions: Dimensions) -> dict[str, Any]:
    return {
        "hidden_size": dimensions["vision_hidden"],
        "intermediate_size": dimensions["vision_intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["vision_heads"],
        "image_size": dimensions["image"],
        "patch_size": dimensions["patch"],
    }


def _text(dimensions: Dimensions) -> dict[str, Any]:
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "intermediate_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "max_position_embeddings": dimensions["positions"],
        "eos_token_id": 1,
        "bos_token_id": 0,
        "pad_token_id": 1,
    }


def clip(dimensions: Dimensions) -> dict[str, Any]:
    """CLIP's names."""
    return {
        "text_config": {**_text(dimensions), "projection_dim": dimensions["projection"]},
        "vision_config": {**_tower(dimensions), "projection_dim": dimensions["projection"]},
        "projection_dim": dimensions["projection"],
    }


def siglip(dimensions: Dimensions) -> dict[str, Any]:
    """SigLIP's names."""
    return {
        "text_config": {**_text(dimensions), "projection_size": dimensions["hidden"]},
        "vision_config": _tower(dimensions),
    }


def llava_sets(heads: str, one: bool) -> list[dict[str, int]]:
    """An image encoder before a language model whose sequences begin with an image's patches."""
    found = _seeing(usual_sets(heads, one=one), 1)
    for each in found:
        each["s"] += 128
    return found


def llava(dimensions: Dimensions) -> dict[str, Any]:
    """LLaVA 1.5: CLIP's last layer but one, Llama."""
    text = {
        **_text(dimensions),
        "model_type": "llama",
        "num_key_value_heads": dimensions["kv_heads"],
        "head_dim": dimensions["head_dim"],
        "max_position_embeddings": 1 << 20,
    }
    return {
        "text_config": text,
        "vision_config": {**_tower(dimensions), "model_type": "clip_vision_model"},
        "image_token_index": 7,
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
    }
