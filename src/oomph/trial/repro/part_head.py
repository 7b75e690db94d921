"""The top of a script: what it reproduces and from where, how it is run, what was assumed, and the imports."""

from __future__ import annotations

from oomph import __version__
from oomph.job.model import Job
from oomph.trial.repro.code import TRAINER, is_accelerated, is_sft
from oomph.trial.repro.literals import documented, escaped, literal
from oomph.trial.repro.model import Asked
from oomph.trial.repro.part_trainer import environment
from oomph.trial.repro.part_wrap import imports


def text(asked: Asked, kind: str, phase: str, command: str, left_out: tuple[str, ...]) -> str:
    """Docstring, imports, and the environment that has to be set before them."""
    job = asked.job
    parts = [_docstring(asked, phase, command, left_out), _imports(job, kind, phase), *_set(job, kind)]
    return "\n\n".join(parts) + "\n\n"


def _docstring(asked: Asked, phase: str, command: str, left_out: tuple[str, ...]) -> str:
    what = "A training step" if phase == "all" else f"The phase {phase}"
    lines = [
        f'"""{what} of a job, and nothing else: random weights and data, no network.',
        "",
        *(documented(each) for each in (_job(asked.job), *asked.facts)),
        "",
        f"    {escaped(_plain(command))}",
        "",
        "It ends with the job's own error where memory runs out, and prints the peak of each phase where it does not.",
        documented(f"Left out: {', '.join(left_out)}."),
    ]
    if asked.assumed:
        lines += ["", "Assumed, because nothing says it:"]
        lines += [documented(sentence, "- ", "  ") for sentence in asked.assumed]
    lines += ["", f"Written by oomph repro {__version__}.", '"""']
    return "\n".join(lines)


def _plain(command: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in command)


def _job(job: Job) -> str:
    """The job in one sentence."""
    batch, precision = job.batch, job.precision
    name = job.model.name or f"a model of the family {job.model.family}"
    size = f"{batch.sequence:,} tokens" if batch.sequence is not None else "one image"
    parts = [f"{name}, {batch.micro:,} x {size} on each rank"]
    if batch.accumulation > 1:
        parts.append(f"{batch.accumulation:,} micro-batches a step")
    cast = f" under {precision.compute} autocast" if precision.autocast else ""
    if not cast and precision.compute != precision.weights:
        cast = f", {precision.compute} products"
    parts.append(f"{precision.weights} weights{cast}")
    if job.method.name != "full" and job.method.lora is not None:
        parts.append(f"{job.method.name} of rank {job.method.lora.rank}")
    if job.checkpointing.mode != "none":
        parts.append("activation checkpointing")
    parts.append(f"{job.optimizer.name} ({job.optimizer.impl})")
    if job.parallel.ranks > 1:
        parts.append(f"{job.parallel.strategy} over {job.parallel.ranks:,} ranks")
    return f"{', '.join(parts)}."


def _imports(job: Job, kind: str, phase: str) -> str:
    standard = ["argparse", "contextlib", "os", "sys"]
    if any(
        name in ("torch", "transformers", "accelerate", "peft", "bitsandbytes")
        for name, _ in job.framework.versions
    ):
        standard.append("importlib.metadata")
    if kind == TRAINER:
        standard.append("tempfile")
    others = ["torch", "transformers"]
    if is_accelerated(job):
        others.append("accelerate")
    if is_sft(job):
        others += ["datasets", "tokenizers", "trl"]
    quantised = job.method.quantization is not None
    if job.method.lora is not None:
        others.append("peft")
    if quantised or (kind != TRAINER and job.optimizer.impl.startswith("bnb")):
        others.append("bitsandbytes")
    lines = [f"import {name}" for name in sorted(standard)]
    lines += ["", 'os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched']
    if job.allocator:
        lines.append(f'os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", {literal(job.allocator)})')
    lines.append("")
    lines += [f"import {name}" for name in sorted(others)]
    if kind == TRAINER or is_accelerated(job):
        return "\n".join(lines)
    if job.parallel.strategy != "none":
        lines.insert(-1, "import torch.distributed")
    lines += imports(job)
    if phase == "save" and job.parallel.strategy.startswith("fsdp"):
        lines.append(
            "from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict"
        )
    return "\n".join(lines)


def _set(job: Job, kind: str) -> list[str]:
    found = environment(job) if kind == TRAINER or is_accelerated(job) else ""
    return [found.strip("\n")] if found else []
