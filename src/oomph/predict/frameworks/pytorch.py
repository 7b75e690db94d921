"""torchtitan, torchtune, and a benchmark in plain PyTorch. Sources: docs/frameworks.md."""

from __future__ import annotations

from dataclasses import replace

from oomph.job.model import Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below, text

#: Commits of torchtitan that published benchmarks name, and their dates.
_TITAN_COMMITS = {"9dec370": "2024.12.23", "e7c0cae": "2025.06.11"}
#: From here on the default optimizer is fused AdamW; the loss is compiled with the model (again since 2025-02-20).
_TITAN_COMPILED_LOSS = "2025.02.24"
#: Embedding and [norm, output] are units of their own from here on; the latter alone is not resharded after forward.
_TITAN_UNITS = "2025.07.28"


def torchtitan(job: Job) -> tuple[Code, ...]:
    """torchtitan by date: the commit's, the one that is told, or the newest rules and what they were before."""
    commit = text(job.framework, "torchtitan").removeprefix("git")[:7]
    date = _TITAN_COMMITS.get(commit) or text(job.framework, "torchtitan-date")
    if date:
        return (_titan(job, date),)
    return tuple(_titan(job, each) for each in ("2026.01", "2025.06", "2024.12"))


def _titan(job: Job, date: str) -> Code:
    later = date >= _TITAN_COMPILED_LOSS
    apart = date >= _TITAN_UNITS
    loss: str = job.loss
    if loss in ("default", "triton_ce"):
        loss = "compiled_ce" if job.compile and later else "eager_fp32"
    return Code(
        framework="torchtitan",
        label=f"torchtitan of {date[:7].replace('.', '-')}",
        programs="torchtitan-2025-06" if later else "torchtitan-2024-12",
        own_families=("llama",),
        loss=loss,
        zero_grad="before_forward",
        reentrant=False,
        selective_every=2,
        checkpoint_outside_compile=False,
        units="blocks_and_embeddings" if apart else "blocks",
        head_with_norm=apart,
        last_block_stays=not apart,
        head_stays=apart,
        reduces_in_compute=False,
        unties=True,
        # the compiled loss is recorded as one: compiled_ce
        compiled="blocks",
        optimizer_impl="fused" if later else "foreach",
    )


def torchtune(job: Job) -> tuple[Code, ...]:
    """torchtune from 0.3 on (chunked loss); 0.2 and older upcast all logits."""
    old = below(job.framework, "torchtune", 0, 3)
    loss: str = job.loss
    if loss in ("default", "chunked_ce"):
        loss = "compiled_chunked_ce" if job.compile else "chunked_ce"
    code = Code(
        framework="torchtune",
        label="torchtune from 0.3 on",
        programs="torchtune-0.3",
        own_families=("llama",),
        # its builders of these make the same decoder
        written_as=(("mistral", "llama"),),
        loss=loss,
        loss_outside=True,
        clips=False,
        reentrant=False,
        checkpoint_outside_compile=True,
        # full fine-tuning's configs of Llama 3 name embedding and output as units (custom_sharded_layers)
        units="blocks_and_embeddings" if job.method.name == "full" else "blocks",
        reduces_in_compute=True,
        lora="torchtune",
        lora_casts_input=False,
        lora_fp32=False,
        # compiled_chunked_ce is recorded as such
        compiled="blocks",
        optimizer_impl="fused",
    )
    if old:
        return (replace(code, label="torchtune before 0.3", loss="eager_fp32", compiled="model_and_loss"),)
    return (code,)


def minimind(job: Job) -> tuple[Code, ...]:
    """MiniMind's tensor-parallel memory script: the loss is the mean of the fp32 logits."""
    return (
        Code(
            framework="minimind",
            label="MiniMind's memory benchmark",
            loss="eager_fp32" if job.loss == "default" else job.loss,
            logits_through_backward=True,
            loss_through_step=True,
            logits_through_step=True,
            clips=False,
            reentrant=False,
            units="root",
        ),
    )
