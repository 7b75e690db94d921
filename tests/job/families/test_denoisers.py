"""Denoisers of diffusers: each parameter as the real class has it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from oomph.errors import UsageError
from oomph.job.config import from_config
from oomph.job.families import architecture, dimensions
from tests.job.families.meta import listed, same_parameters

SMALL_FLUX = {
    "num_layers": 2,
    "num_single_layers": 3,
    "attention_head_dim": 8,
    "num_attention_heads": 3,
    "joint_attention_dim": 20,
    "pooled_projection_dim": 10,
    "axes_dims_rope": [2, 2, 4],
}
SMALL_SD3 = {
    "num_layers": 4,
    "attention_head_dim": 8,
    "num_attention_heads": 3,
    "joint_attention_dim": 20,
    "pooled_projection_dim": 10,
    "caption_projection_dim": 24,
}
SMALL_UNET = {"block_out_channels": [32, 64, 96, 96], "cross_attention_dim": 40, "attention_head_dim": 8}
XL = {
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [320, 640, 1280],
    "attention_head_dim": [5, 10, 20],
    "cross_attention_dim": 2048,
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("FluxTransformer2DModel", SMALL_FLUX),
    ("FluxTransformer2DModel", {**SMALL_FLUX, "guidance_embeds": True, "out_channels": 48, "patch_size": 2}),
    ("DiTTransformer2DModel", {"num_layers": 2, "num_attention_heads": 2, "attention_head_dim": 8}),
    (
        "DiTTransformer2DModel",
        {"num_layers": 1, "num_attention_heads": 2, "out_channels": 8, "attention_bias": False},
    ),
    ("SD3Transformer2DModel", SMALL_SD3),
    ("SD3Transformer2DModel", {**SMALL_SD3, "dual_attention_layers": [0, 1], "qk_norm": "rms_norm"}),
    ("UNet2DConditionModel", SMALL_UNET),
    ("UNet2DConditionModel", {**SMALL_UNET, "layers_per_block": [1, 2, 3, 2], "use_linear_projection": True}),
    ("UNet2DConditionModel", XL),
]


@pytest.mark.parametrize(("family", "config"), CASES)
def test_every_parameter(family: str, config: dict[str, Any]) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import diffusers

        with torch.device("meta"):
            real = getattr(diffusers, family)(**config)
    same_parameters(architecture(from_config({"_class_name": family, **config})), listed(real))


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"_class_name": "UNet2DConditionModel", **XL}, 2_567_463_684),  # stable-diffusion-xl-base-1.0
        (
            {"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768},
            859_520_964,
        ),  # stable-diffusion-v1-5
        ({"_class_name": "FluxTransformer2DModel", "guidance_embeds": True}, 11_901_408_320),  # FLUX.1-dev
        ({"_class_name": "FluxTransformer2DModel"}, 11_891_178_560),  # FLUX.1-schnell
    ],
)
def test_published_numbers_of_parameters(config: dict[str, Any], parameters: int) -> None:
    assert architecture(from_config(config)).total == parameters


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"dual_attention_layers": [1, 2]}, "unsupported: dual_attention_layers"),
        ({"caption_projection_dim": 40}, "caption_projection_dim"),
        ({"qk_norm": "layer_norm"}, "unsupported: qk_norm"),
    ],
)
def test_other_transformers_of_sd3_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        architecture(from_config({"_class_name": "SD3Transformer2DModel", **SMALL_SD3, **config}))


def test_stacks_of_flux() -> None:
    found = architecture(from_config({"_class_name": "FluxTransformer2DModel"}))
    assert found.stacks == ("transformer_blocks", "single_transformer_blocks")
    assert (found.depth(), found.depth("single_transformer_blocks")) == (19, 38)
    assert dimensions(from_config({"_class_name": "DiTTransformer2DModel"}))["patches"] == 256


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"down_block_types": ["AttnDownBlock2D"] * 4}, "unsupported: down_block_types"),
        ({"class_embed_type": "timestep"}, "unsupported: class_embed_type"),
        ({"only_cross_attention": True}, "unsupported: only_cross_attention"),
        ({"addition_embed_type": "text"}, "unsupported: the middle or the embeddings"),
        ({"layers_per_block": [1, 2]}, "one for each of its 4 blocks"),
        ({"block_out_channels": []}, "must be a list of widths"),
    ],
)
def test_other_unets_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        architecture(from_config({"_class_name": "UNet2DConditionModel", **config}))
