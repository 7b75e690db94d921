"""torchtitan, torchtune, and a benchmark in plain PyTorch. Sources: docs/frameworks.md."""

from __future__ import annotations

from dataclasses import replace

from oomph.errors import UsageError
from oomph.hardware.names import gpu
from oomph.job.model import Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below, text

#: Commits of torchtitan that published benchmarks name, and their dates.
_TITAN_COMMITS = {
    "9dec370": "2024.12.23",
    "e7c0cae": "2025.06.11",
    "2c8b594": "2025.08.08",
    "6fc499f": "2025.08.14",
}
#: A version of torchtitan that was its main branch's for more than a year (2024-04-16 to 2025-06-05): which month of it
#: is told by PyTorch's, whose nightly builds it asked for.
_TITAN_OLD = (0, 0, 2)
_TITAN_MONTHS = {(2, 5): "2024.08", (2, 6): "2024.11", (2, 7): "2025.03", (2, 8): "2025.05"}
#: From here on the default optimizer is fused AdamW.
_TITAN_FUSED = "2025.02.24"
#: From here on the loss is compiled with the model (bbb1b616e; before, of 2025 on 2025-02-20 alone).
_TITAN_COMPILED_LOSS = "2025.04.02"
#: Embedding and [norm, output] are units of their own from here on; the latter alone is not resharded after forward.
_TITAN_UNITS = "2025.07.28"
#: From the first day on (3b85aa31f) attention on Blackwell is cuDNN's; from the second on (b39377f9f) selective
#: checkpoints keep its result too.
_TITAN_CUDNN = ("2025.05.14", "2025.12.01")
_BLACKWELL = (10, 0)


def torchtitan(job: Job) -> tuple[Code, ...]:
    """torchtitan by date: the commit's, the one that is told, or the newest rules and what they were before."""
    commit = text(job.framework, "torchtitan").removeprefix("git")[:7]
    date = _TITAN_COMMITS.get(commit) or text(job.framework, "torchtitan-date")
    if not date and job.framework.version("torchtitan") == _TITAN_OLD:
        torch = (*(job.framework.version("torch") or ()), 0, 0)
        date = _TITAN_MONTHS.get((torch[0], torch[1]), "")
        if not date:
            return tuple(_titan(job, each) for each in ("2025.03", "2024.12"))
    if date:
        return (_titan(job, date),)
    return tuple(_titan(job, each) for each in ("2026.01", "2025.06", "2024.12"))


def _titan(job: Job, date: str) -> Code:
    apart = date >= _TITAN_UNITS
    loss: str = job.loss
    if loss in ("default", "triton_ce"):
        loss = "compiled_ce" if job.compile and date >= _TITAN_COMPILED_LOSS else "eager_fp32"
    if job.parallel.tensor > 1 and job.loss in ("default", "triton_ce"):
        # Unless disable_loss_parallel is asked for (train.py, get_train_context): then a job says eager_fp32.
        loss = "loss_parallel"
    return Code(
        framework="torchtitan",
        label=f"torchtitan of {date[:7].replace('.', '-')}",
        programs="torchtitan-2025-06" if date >= _TITAN_FUSED else "torchtitan-2024-12",
        own_families=("llama",),
        loss=loss,
        zero_grad="before_forward",
        reentrant=False,
        selective_every=2,
        selective_attention=not (_TITAN_CUDNN[0] <= date < _TITAN_CUDNN[1] and _is_blackwell(job)),
        checkpoint_outside_compile=False,
        units="blocks_and_embeddings" if apart else "blocks",
        head_with_norm=apart,
        last_block_stays=not apart,
        head_stays=apart,
        reduces_in_compute=False,
        unties=True,
        # the compiled loss is recorded as one: compiled_ce
        compiled="blocks",
        optimizer_impl="fused" if date >= _TITAN_FUSED else "foreach",
    )


def _is_blackwell(job: Job) -> bool:
    """Whether torchtitan's has_cuda_capability(10, 0) is true."""
    try:
        return bool(job.hardware.gpu) and gpu(job.hardware.gpu).capability >= _BLACKWELL
    except UsageError:
        return False


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
        ties=(("output.weight", "tok_embeddings.weight"),),
        shards_constants=True,
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
            loss="mean" if job.loss in ("default", "eager_fp32") else job.loss,
            logits_through_backward=True,
            loss_through_step=True,
            logits_through_step=True,
            clips=False,
            reentrant=False,
            units="root",
        ),
    )
