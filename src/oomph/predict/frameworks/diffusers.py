"""diffusers' classes under its training scripts, or a loop like theirs. Sources: docs/diffusion.md."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.predict.frameworks.code import Code


def codes(job: Job) -> tuple[Code, ...]:
    """One code: blocks are checkpointed not the reentrant way (modeling_utils.py), gradients go after the step."""
    del job
    return (
        Code(
            framework="diffusers",
            label="diffusers' training scripts",
            programs="diffusers",
            reentrant=False,
            lora_fp32=False,
        ),
    )
