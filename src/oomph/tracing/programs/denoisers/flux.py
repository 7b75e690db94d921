"""FLUX as diffusers' dreambooth scripts train it (examples/dreambooth/train_dreambooth_lora_flux.py, the lines from the
latents to the loss)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oomph.tracing.programs.denoisers.record import Call

NAMES = (
    "b",
    "s",
    "rows",
    "columns",
    "n",
    "hidden",
    "heads",
    "head_dim",
    "text",
    "pooled",
    "channels",
    "rope",
    "rope_wide",
)
STACKS = ("transformer_blocks", "single_transformer_blocks")

_ROWS = (
    # b, s, rows, columns, heads, text, pooled, channels, rope, rope_wide
    (7, 96, 8, 20, 5, 212, 44, 12, 8, 16),
    (5, 160, 16, 14, 7, 148, 52, 20, 8, 24),
    (3, 224, 24, 12, 3, 236, 68, 28, 24, 16),
    (11, 64, 32, 7, 2, 308, 76, 36, 16, 40),
    (9, 128, 12, 8, 11, 356, 92, 44, 40, 24),
    (4, 192, 4, 24, 6, 404, 116, 52, 56, 32),
)
_KEYS = ("b", "s", "rows", "columns", "heads", "text", "pooled", "channels", "rope", "rope_wide")


def sets(one: bool = False) -> list[dict[str, int]]:
    """Sets of unrelated numbers; `one`: a batch of one."""
    found = []
    for row in _ROWS:
        each = dict(zip(_KEYS, row, strict=True))
        each["b"] = 1 if one else each["b"]
        each["n"] = each["rows"] * each["columns"]
        each["head_dim"] = each["rope"] + 2 * each["rope_wide"]
        each["hidden"] = each["heads"] * each["head_dim"]
        found.append(each)
    return found


def build(dimensions: Mapping[str, int], guidance: bool) -> Any:
    """A transformer with three blocks of each kind."""
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(
        in_channels=dimensions["channels"],
        num_layers=3,
        num_single_layers=3,
        attention_head_dim=dimensions["head_dim"],
        num_attention_heads=dimensions["heads"],
        joint_attention_dim=dimensions["text"],
        pooled_projection_dim=dimensions["pooled"],
        guidance_embeds=guidance,
        axes_dims_rope=(dimensions["rope"], dimensions["rope_wide"], dimensions["rope_wide"]),
    )


def batch(dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Latents as the autoencoder gave them, and the prompts' embeddings."""
    import torch

    b, s = dimensions["b"], dimensions["s"]
    latents = (b, dimensions["channels"] // 4, 2 * dimensions["rows"], 2 * dimensions["columns"])
    return {
        "model_input": torch.zeros(latents),
        "prompt_embeds": torch.zeros(b, s, dimensions["text"]),
        "pooled_prompt_embeds": torch.zeros(b, dimensions["pooled"]),
        "text_ids": torch.zeros(s, 3),
    }


def loop(guided: bool) -> Any:
    """The script's lines; `guided`: the model takes a guidance scale."""

    def run(model: Call, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
        del dimensions
        return _step(model, batch, guided)

    return run


def _step(model: Call, batch: Mapping[str, Any], guided: bool) -> dict[str, Any]:
    import torch
    from diffusers import FluxPipeline

    latents = batch["model_input"]
    b, channels, height, width = latents.shape
    ids = FluxPipeline._prepare_latent_image_ids(  # noqa: SLF001 - as the script
        b, height // 2, width // 2, latents.device, latents.dtype
    )
    noise = torch.randn_like(latents)
    timesteps = torch.zeros(b).to(latents.device)
    sigmas = torch.zeros(b).to(latents.device, dtype=latents.dtype)[:, None, None, None]
    noisy = (1.0 - sigmas) * latents + sigmas * noise
    packed = FluxPipeline._pack_latents(noisy, b, channels, height, width)  # noqa: SLF001
    guidance = torch.tensor([1.0], device=latents.device).expand(b) if guided else None
    prediction = model(
        hidden_states=packed,
        timestep=timesteps / 1000,
        guidance=guidance,
        pooled_projections=batch["pooled_prompt_embeds"],
        encoder_hidden_states=batch["prompt_embeds"],
        txt_ids=batch["text_ids"],
        img_ids=ids,
        return_dict=False,
    )[0]
    prediction = FluxPipeline._unpack_latents(prediction, height * 8, width * 8, 8)  # noqa: SLF001
    weighting = torch.ones_like(sigmas)
    target = noise - latents
    loss = torch.mean(
        (weighting.float() * (prediction.float() - target.float()) ** 2).reshape(b, -1), 1
    ).mean()
    return {"loss": loss, "prediction": prediction, "noise": noise, "target": target, "packed": packed}


def modules(net: Any) -> Sequence[str]:
    """The blocks."""
    return [f"{stack}.{number}" for stack in STACKS for number in range(len(net.get_submodule(stack)))]
