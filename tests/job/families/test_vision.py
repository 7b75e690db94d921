"""Image encoders and language models that see: each parameter as transformers' own class has it."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from oomph.errors import UsageError
from oomph.job.config import from_config
from oomph.job.families import architecture, dimensions
from oomph.job.families.seeing import _QWEN, _QWEN_TEXT
from oomph.job.families.vision import DEFAULTS
from tests.job.families.meta import default_config, real_parameters, same_parameters

TEXT = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 77,
    "pad_token_id": None,
}
SEEN = {
    "hidden_size": 36,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
LLAMA = {**TEXT, "model_type": "llama", "num_key_value_heads": 2}
QWEN = {**TEXT, "num_key_value_heads": 2}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("vit", "AutoModelForImageClassification", {**SEEN, "num_labels": 5}),
    (
        "vit",
        "AutoModelForImageClassification",
        {**SEEN, "qkv_bias": False, "image_size": [56, 28], "num_channels": 1},
    ),
    ("vit", "AutoModel", {**SEEN, "architectures": ["ViTModel"]}),
    ("clip_text_model", "AutoModel", TEXT),
    ("clip_vision_model", "AutoModel", SEEN),
    ("siglip_vision_model", "AutoModel", SEEN),
    ("siglip_vision_model", "AutoModel", {**SEEN, "vision_use_head": False}),
    ("clip", "AutoModel", {"text_config": TEXT, "vision_config": SEEN, "projection_dim": 30}),
    ("siglip", "AutoModel", {"text_config": {**TEXT, "projection_size": 36}, "vision_config": SEEN}),
    (
        "llava",
        "AutoModelForImageTextToText",
        {"text_config": LLAMA, "vision_config": {**SEEN, "model_type": "clip_vision_model"}},
    ),
    (
        "llava",
        "AutoModelForImageTextToText",
        {
            "text_config": {**QWEN, "model_type": "qwen2", "tie_word_embeddings": True},
            "vision_config": {**SEEN, "model_type": "siglip_vision_model"},
            "vision_feature_layer": [-1, -2],
            "multimodal_projector_bias": False,
        },
    ),
    (
        "qwen2_vl",
        "AutoModelForImageTextToText",
        {
            "text_config": QWEN,
            "vision_config": {"depth": 2, "embed_dim": 40, "hidden_size": 48, "num_heads": 4},
        },
    ),
    (
        "qwen2_5_vl",
        "AutoModelForImageTextToText",
        {
            "text_config": {**QWEN, "tie_word_embeddings": True},
            "vision_config": {
                "depth": 3,
                "hidden_size": 40,
                "intermediate_size": 72,
                "num_heads": 4,
                "out_hidden_size": 48,
                "in_channels": 1,
                "patch_size": 10,
            },
        },
    ),
    (
        "gemma3",
        "AutoModelForImageTextToText",
        {"text_config": {**QWEN, "head_dim": 10}, "vision_config": {**SEEN, "vision_use_head": False}},
    ),
]


@pytest.mark.parametrize(("family", "auto", "config"), CASES)
def test_every_parameter(family: str, auto: str, config: dict[str, Any]) -> None:
    ours = from_config({"model_type": family, **config})
    real = {key: value for key, value in config.items() if key != "architectures"}
    same_parameters(architecture(ours), real_parameters(family, real, auto))


def test_defaults_of_parts() -> None:
    theirs = default_config("siglip_text_model")
    assert {key: theirs[key] for key in DEFAULTS["siglip_text_model"]} == DEFAULTS["siglip_text_model"]
    for family, ours in _QWEN.items():
        config = default_config(family)
        assert {key: config["vision_config"][key] for key in ours} == ours
        assert {key: config["text_config"][key] for key in _QWEN_TEXT} == _QWEN_TEXT


def test_vit_before_transformers_5() -> None:
    """modeling_vit.py of transformers 4.57: other names, as many elements."""
    model = from_config({"model_type": "vit"})
    old, new = architecture(model, 4), architecture(model)
    assert old.total == new.total
    assert old.linears == (
        "attention.attention.query",
        "attention.attention.key",
        "attention.attention.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    )


#: As the models' config.json files on the hub have them, and parameters of the safetensors files.
PUBLISHED: list[tuple[dict[str, Any], int]] = [
    (
        {  # llava-hf/llava-1.5-7b-hf
            "model_type": "llava",
            "text_config": {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
            "vision_config": {
                "model_type": "clip_vision_model",
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
        },
        7_063_427_072,
    ),
    (
        {  # Qwen/Qwen2.5-VL-7B-Instruct: the text model's keys beside vision_config
            "model_type": "qwen2_5_vl",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "vision_config": {
                "depth": 32,
                "hidden_size": 1280,
                "intermediate_size": 3420,
                "num_heads": 16,
                "in_chans": 3,
                "out_hidden_size": 3584,
                "spatial_patch_size": 14,
            },
        },
        8_292_166_656,
    ),
    (
        {  # Qwen/Qwen2-VL-7B-Instruct
            "model_type": "qwen2_vl",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "vision_config": {
                "depth": 32,
                "embed_dim": 1280,
                "hidden_size": 3584,
                "mlp_ratio": 4,
                "num_heads": 16,
            },
        },
        8_291_375_616,
    ),
    (
        {  # google/gemma-3-4b-it
            "model_type": "gemma3",
            "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34},
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 896,
                "intermediate_size": 4304,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        4_300_079_472,
    ),
    ({"model_type": "clip"}, 151_277_313),  # openai/clip-vit-base-patch32
    ({"model_type": "siglip"}, 203_155_970),  # google/siglip-base-patch16-224
    ({"model_type": "vit", "num_labels": 1000}, 86_567_656),  # google/vit-base-patch16-224
]


@pytest.mark.parametrize(("config", "parameters"), PUBLISHED)
def test_published_numbers_of_parameters(config: dict[str, Any], parameters: int) -> None:
    assert architecture(from_config(config)).total == parameters


def test_dimensions_of_both_parts() -> None:
    dims = dimensions(from_config(PUBLISHED[0][0]))
    assert (dims["hidden"], dims["vision_hidden"], dims["vision_patches"]) == (4096, 1024, 24 * 24)
    found = architecture(from_config(PUBLISHED[0][0]))
    assert found.stacks == ("model.vision_tower.encoder.layers", "model.language_model.layers")
    assert found.embedding == "model.language_model.embed_tokens"
    assert found.depth("model.language_model.layers") == 32
    assert sum(found.per_layer) + sum(one.total for one in found.outside) == found.total
    assert found.total == sum(prod(one.shape) for _, one in found.named() if not one.tied)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llava", "text_config": {"model_type": "mamba"}},
        {"model_type": "llava", "vision_config": {"model_type": "pixtral"}},
        {"model_type": "vit", "architectures": ["ViTForMaskedImageModeling"]},
    ],
)
def test_parts_that_are_not_known(config: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"unsupported: .*oomph trace"):
        architecture(from_config(config))


def test_sides_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="must be one side or two"):
        dimensions(from_config({"model_type": "vit", "image_size": [1, 2, 3]}))
