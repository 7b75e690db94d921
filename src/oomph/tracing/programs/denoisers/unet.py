"""Stable Diffusion's UNets as diffusers' scripts train them (examples/text_to_image: train_text_to_image.py,
train_text_to_image_lora_sdxl.py, the lines from the latents to the loss).

No two resolutions do the same, so that each published configuration is recorded as it is, with all of its blocks; what
is open are the batch, the prompt's tokens and the image's side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oomph.tracing.programs.denoisers.record import Call

#: `side`: 64 pixels, so that every resolution is a whole number of latents.
NAMES = ("b", "s", "side")
_XL = {
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
#: What differs from the class's defaults.
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "sd15": {"cross_attention_dim": 768, "attention_head_dim": 8},
    "sd21": {
        "cross_attention_dim": 1024,
        "attention_head_dim": [5, 10, 20, 20],
        "use_linear_projection": True,
    },
    "sdxl": _XL,
}
_ROWS = ((7, 96, 3), (5, 160, 2), (3, 224, 5), (11, 64, 4), (9, 128, 7), (4, 192, 6))
_POOLED, _TIME_IDS = 1280, 6


def sets(one: bool = False) -> list[dict[str, int]]:
    """Sets of unrelated numbers; `one`: a batch of one."""
    return [{"b": 1 if one else b, "s": s, "side": side} for b, s, side in _ROWS]


def build(name: str) -> Any:
    """A UNet of this configuration, on the meta device."""
    import torch
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        return UNet2DConditionModel(**CONFIGS[name])


def batch(name: str, dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Latents as the autoencoder gave them, the prompts' embeddings, and what XL adds to the timestep."""
    import torch

    config, b, side = CONFIGS[name], dimensions["b"], 8 * dimensions["side"]
    found = {
        "model_input": torch.zeros(b, 4, side, side),
        "prompt_embeds": torch.zeros(b, dimensions["s"], config["cross_attention_dim"]),
    }
    if "addition_embed_type" in config:
        found["text_embeds"] = torch.zeros(b, _POOLED)
        found["time_ids"] = torch.zeros(b, _TIME_IDS)
    return found


def step(model: Call, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """The script's lines."""
    import torch

    latents = batch["model_input"]
    noise = torch.randn_like(latents)
    timesteps = torch.zeros(dimensions["b"], device=latents.device, dtype=torch.int64)
    alphas = torch.zeros(1000).to(latents.device, dtype=latents.dtype)
    kept = (alphas[timesteps] ** 0.5).flatten()[:, None, None, None]
    added = ((1 - alphas[timesteps]) ** 0.5).flatten()[:, None, None, None]
    noisy = kept * latents + added * noise
    more = {}
    if "time_ids" in batch:
        more["added_cond_kwargs"] = {name: batch[name] for name in ("text_embeds", "time_ids")}
    prediction = model(noisy, timesteps, batch["prompt_embeds"], return_dict=False, **more)[0]
    loss = torch.nn.functional.mse_loss(prediction.float(), noise.float(), reduction="mean")
    return {"loss": loss, "prediction": prediction, "noise": noise, "noisy": noisy}


def modules(net: Any) -> Sequence[str]:
    """What enable_gradient_checkpointing checkpoints: residual blocks and transformer blocks (unet_2d_blocks.py,
    transformer_2d.py), and the middle's first residual block, which it does not."""
    kinds = ("ResnetBlock2D", "BasicTransformerBlock")
    return [name for name, module in net.named_modules() if type(module).__name__ in kinds]
