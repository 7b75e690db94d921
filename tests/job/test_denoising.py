"""What stands in for what nobody said of a denoiser's job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.job.config import from_config
from oomph.job.defaults import with_defaults
from oomph.job.model import Batch, Job, Lora, Method, Precision


def _job(family: str, **config: object) -> Job:
    return Job(
        model=from_config({"_class_name": family, **config}),
        method=Method(name="lora", lora=Lora()),
        batch=Batch(sequence=512),
    )


@pytest.mark.parametrize(
    ("family", "config", "image", "tokens"),
    [
        ("FluxTransformer2DModel", {}, 1024, 512),  # train_dreambooth_lora_flux.py: max_sequence_length
        ("SD3Transformer2DModel", {"sample_size": 128}, 1024, 77 + 77),  # CLIP's, and T5's in the script
        ("DiTTransformer2DModel", {}, 8 * 32, None),  # its class's sample_size; labels are no text
        ("UNet2DConditionModel", {"sample_size": 64}, 512, 77),
    ],
)
def test_images_and_prompts_are_the_scripts(family, config, image, tokens):
    job, _ = with_defaults(_job(family, **config), ())
    assert (job.batch.image_size, job.batch.sequence) == (image, tokens)


@pytest.mark.parametrize(("weights", "dtype"), [("bf16", "bf16"), ("fp16", "fp32"), ("fp32", "fp32")])
def test_adapters_are_cast_beside_fp16(weights, dtype):
    """cast_training_params runs where mixed_precision is fp16."""
    job = replace(_job("SD3Transformer2DModel"), precision=Precision(weights=weights, compute=weights))
    found, _ = with_defaults(job, ("precision",))
    assert found.method.lora is not None
    assert found.method.lora.dtype == dtype
    assert "attn.add_k_proj" in found.method.lora.targets
