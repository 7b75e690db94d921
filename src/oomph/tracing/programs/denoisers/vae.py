"""The autoencoders of Stable Diffusion and FLUX: images into latents while training, latents into images to look at.

Their convolutions are the same; a configuration says how many channels latents have, and whether a convolution follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oomph.tracing.programs.denoisers.record import Call

#: `side`: 64 pixels.
NAMES = ("b", "side")
_ROWS = ((7, 3), (5, 2), (3, 5), (11, 4), (9, 7), (4, 6))
_BLOCKS = 4


def sets(one: bool = False) -> list[dict[str, int]]:
    """Sets of unrelated numbers; `one`: a batch of one."""
    return [{"b": 1 if one else b, "side": side} for b, side in _ROWS]


def build(latents: int) -> Any:
    """An autoencoder with latents of so many channels, on the meta device."""
    import torch
    from diffusers import AutoencoderKL

    quantised = latents == 4
    with torch.device("meta"):
        return AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * _BLOCKS,
            up_block_types=("UpDecoderBlock2D",) * _BLOCKS,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            latent_channels=latents,
            use_quant_conv=quantised,
            use_post_quant_conv=quantised,
        )


def batch(latents: int, decodes: bool) -> Callable[[Mapping[str, int]], dict[str, Any]]:
    """Images, or latents."""

    def made(dimensions: Mapping[str, int]) -> dict[str, Any]:
        import torch

        b, side = dimensions["b"], dimensions["side"]
        if decodes:
            return {"latents": torch.zeros(b, latents, 8 * side, 8 * side)}
        return {"pixel_values": torch.zeros(b, 3, 64 * side, 64 * side)}

    return made


def encode(model: Call, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """The scripts' line."""
    del dimensions
    return {"latents": model.encode(batch["pixel_values"]).latent_dist.sample() * 0.5}  # type: ignore[attr-defined]


def decode(model: Call, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """As pipelines do."""
    del dimensions
    return {"images": model.decode(batch["latents"] / 0.5, return_dict=False)[0]}  # type: ignore[attr-defined]
