"""DiT, and Stable Diffusion 3's transformers as diffusers' scripts train them (examples/dreambooth,
train_dreambooth_lora_sd3.py, the lines from the latents to the loss)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oomph.tracing.programs.denoisers.record import Call

STACK = "transformer_blocks"
#: Blocks of SD3 that attend twice (the first ones), and the last one, of whose text nothing is used.
TWICE, LAST = f"{STACK} twice", f"{STACK} last"
DIT_NAMES = ("b", "side", "n", "hidden", "heads", "head_dim", "classes")
SD3_NAMES = (
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
    "positions",
)
_DIT_ROWS = (
    # b, side, heads, head_dim, classes
    (7, 12, 5, 40, 211),
    (5, 16, 7, 56, 149),
    (3, 24, 3, 72, 307),
    (11, 8, 2, 88, 97),
    (9, 20, 11, 24, 431),
    (4, 28, 6, 104, 263),
)
_SD3_ROWS = (
    # b, s, rows, columns, heads, head_dim, text, pooled, positions
    (7, 96, 8, 20, 5, 40, 212, 44, 32),
    (5, 160, 16, 14, 7, 56, 148, 52, 48),
    (3, 224, 24, 12, 3, 72, 236, 68, 40),
    (11, 64, 32, 6, 2, 88, 308, 76, 36),
    (9, 128, 12, 8, 11, 24, 356, 92, 52),
    (4, 192, 4, 24, 6, 104, 404, 116, 56),
)
_SD3_KEYS = ("b", "s", "rows", "columns", "heads", "head_dim", "text", "pooled", "positions")
_TWO = 2


def dit_sets(one: bool = False) -> list[dict[str, int]]:
    """Sets of unrelated numbers; `one`: a batch of one. `side`: tokens of an image's side."""
    found = []
    for b, side, heads, head_dim, classes in _DIT_ROWS:
        each = {"b": 1 if one else b, "side": side, "n": side * side, "heads": heads, "head_dim": head_dim}
        found.append({**each, "hidden": heads * head_dim, "classes": classes})
    return found


def dit_build(dimensions: Mapping[str, int]) -> Any:
    """A DiT with three blocks."""
    from diffusers import DiTTransformer2DModel

    return DiTTransformer2DModel(
        num_attention_heads=dimensions["heads"],
        attention_head_dim=dimensions["head_dim"],
        in_channels=4,
        out_channels=8,
        num_layers=3,
        sample_size=_TWO * dimensions["side"],
        patch_size=_TWO,
        num_embeds_ada_norm=dimensions["classes"],
    )


def dit_batch(dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Latents and labels."""
    import torch

    b, side = dimensions["b"], _TWO * dimensions["side"]
    return {
        "model_input": torch.zeros(b, 4, side, side),
        "labels": torch.zeros(b, dtype=torch.int64),
    }


def dit_step(model: Call, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Noise is predicted; the other half of the channels is the variance, which a plain loss leaves."""
    import torch

    latents = batch["model_input"]
    noise = torch.randn_like(latents)
    timesteps = torch.zeros(dimensions["b"], device=latents.device, dtype=torch.int64)
    alphas = torch.zeros(1000).to(latents.device, dtype=latents.dtype)
    kept = (alphas[timesteps] ** 0.5).flatten()[:, None, None, None]
    added = ((1 - alphas[timesteps]) ** 0.5).flatten()[:, None, None, None]
    noisy = kept * latents + added * noise
    prediction = model(noisy, timestep=timesteps, class_labels=batch["labels"], return_dict=False)[0]
    first, _ = prediction.chunk(2, dim=1)
    loss = torch.nn.functional.mse_loss(first.float(), noise.float(), reduction="mean")
    return {"loss": loss, "prediction": prediction, "noise": noise, "noisy": noisy}


def sd3_sets(one: bool = False) -> list[dict[str, int]]:
    """Sets of unrelated numbers; `one`: a batch of one."""
    found = []
    for row in _SD3_ROWS:
        each = dict(zip(_SD3_KEYS, row, strict=True))
        each["b"] = 1 if one else each["b"]
        each["n"] = each["rows"] * each["columns"]
        each["hidden"] = each["heads"] * each["head_dim"]
        found.append(each)
    return found


def sd3_build(dimensions: Mapping[str, int], norm: str | None, twice: bool) -> Any:
    """Three blocks that attend once and the last; with `twice` three before them that attend twice."""
    from diffusers import SD3Transformer2DModel

    return SD3Transformer2DModel(
        sample_size=_TWO * dimensions["positions"],
        patch_size=_TWO,
        in_channels=16,
        num_layers=7 if twice else 4,
        attention_head_dim=dimensions["head_dim"],
        num_attention_heads=dimensions["heads"],
        joint_attention_dim=dimensions["text"],
        caption_projection_dim=dimensions["hidden"],
        pooled_projection_dim=dimensions["pooled"],
        out_channels=16,
        pos_embed_max_size=dimensions["positions"],
        dual_attention_layers=(0, 1, 2) if twice else (),
        qk_norm=norm,
    )


def sd3_batch(dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Latents, and the prompts' embeddings."""
    import torch

    b, s = dimensions["b"], dimensions["s"]
    return {
        "model_input": torch.zeros(b, 16, _TWO * dimensions["rows"], _TWO * dimensions["columns"]),
        "prompt_embeds": torch.zeros(b, s, dimensions["text"]),
        "pooled_prompt_embeds": torch.zeros(b, dimensions["pooled"]),
    }


def sd3_step(model: Call, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """The script's lines, with its preconditioning of what the model returns."""
    import torch

    latents, b = batch["model_input"], dimensions["b"]
    noise = torch.randn_like(latents)
    timesteps = torch.zeros(b).to(latents.device)
    sigmas = torch.zeros(b).to(latents.device, dtype=latents.dtype)[:, None, None, None]
    noisy = (1.0 - sigmas) * latents + sigmas * noise
    prediction = model(
        hidden_states=noisy,
        timestep=timesteps,
        encoder_hidden_states=batch["prompt_embeds"],
        pooled_projections=batch["pooled_prompt_embeds"],
        return_dict=False,
    )[0]
    prediction = prediction * (-sigmas) + noisy
    weighting = torch.ones_like(sigmas)
    loss = torch.mean(
        (weighting.float() * (prediction.float() - latents.float()) ** 2).reshape(b, -1), 1
    ).mean()
    return {"loss": loss, "prediction": prediction, "noise": noise, "noisy": noisy}


def modules(net: Any) -> Sequence[str]:
    """The blocks."""
    return [f"{STACK}.{number}" for number in range(len(net.get_submodule(STACK)))]


def sd3_part(twice: bool) -> Callable[[str], str]:
    """The part that a block of `sd3_build` is."""

    def part(module: str) -> str:
        number, last = int(module.rpartition(".")[2]), 6 if twice else 3
        if number == last:
            return LAST
        return TWICE if twice and number < 3 else STACK

    return part
