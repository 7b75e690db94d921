"""torchtitan, torchtune, and a benchmark in plain PyTorch. Sources: docs/frameworks.md."""

from __future__ import annotations

from dataclasses import replace

from oomph.job.model import Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below, text

#: Commits of torchtitan that published benchmarks name, and their dates.
_TITAN_COMMITS = {"9dec370": 20241224, "e7c0cae": 20250611}
#: The loss is compiled with the model from here on; the default optimizer is fused AdamW.
_TITAN_COMPILED_LOSS = 20250110
#: Embedding and [norm, output] are units of their own from here on.
_TITAN_UNITS = 20250617


def torchtitan(job: Job) -> tuple[Code, ...]:
    """torchtitan by date: the commit's, or the newest rules."""
    commit = text(job.framework, "torchtitan")[:7]
    date = _TITAN_COMMITS.get(commit)
    if date is not None:
        return (_titan(job, date),)
    return (_titan(job, 20260101), _titan(job, _TITAN_COMPILED_LOSS), _titan(job, 20241224))


def _titan(job: Job, date: int) -> Code:
    compiled_loss = date >= _TITAN_COMPILED_LOSS
    apart = date >= _TITAN_UNITS
    loss = job.loss
    if loss == "default":
        loss = "triton_ce" if job.compile and compiled_loss else "eager_fp32"
    return Code(
        framework="torchtitan",
        label=f"torchtitan of {date // 10000}-{date // 100 % 100:02d}",
        programs="torchtitan",
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
        compiled="blocks_and_loss" if compiled_loss else "blocks",
        optimizer_impl="fused" if compiled_loss else "foreach",
    )


def torchtune(job: Job) -> tuple[Code, ...]:
    """torchtune from 0.3 on (chunked loss); 0.2 and older upcast all logits."""
    old = below(job.framework, "torchtune", 0, 3)
    code = Code(
        framework="torchtune",
        label="torchtune from 0.3 on",
        programs="torchtune",
        own_families=("llama",),
        loss="chunked_ce" if job.loss == "default" else job.loss,
        clips=False,
        reentrant=False,
        checkpoint_outside_compile=True,
        # full fine-tuning's configs of Llama 3 name embedding and output as units (custom_sharded_layers)
        units="blocks_and_embeddings" if job.method.name == "full" else "blocks",
        reduces_in_compute=True,
        lora="torchtune",
        lora_casts_input=False,
        lora_fp32=False,
        compiled="blocks_and_loss",
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
