"""The whole script, of its parts."""

from __future__ import annotations

import ast
import shlex
from dataclasses import replace as with_fields
from types import ModuleType

from oomph.job.model import Job
from oomph.job.resolve import resolve
from oomph.phases import Phase
from oomph.trial.repro import (
    part_data,
    part_head,
    part_loop,
    part_model,
    part_phases,
    part_trainer,
    part_wrap,
    refuse,
)
from oomph.trial.repro.code import LOOP, TRAINER, is_accelerated, is_sft, kind_of, left_out_of
from oomph.trial.repro.model import PHASES, Asked, Script
from oomph.trial.repro.tasks import task_of

#: The word for no phase in particular.
ALL = "all"
#: How `resolve` begins what is no choice.
_FOLLOWS = ("Gradients are", "The optimizer's states are")
_LEFT_OUT = ("the data set and its loader", "weights", "logging", "the learning rate's schedule")


def write(asked: Asked) -> Script:
    """The script that does what the job does up to the phase in question, and nothing else.

    What the job leaves open is assumed as `oomph plan` assumes it; the sentences stand in the script. Raises UsageError
    for a job that contradicts itself, and where a fact is missing or something cannot be written, with each by name.
    """
    from oomph.job.check import check

    if asked.job.model.config:
        check(asked.job)
    refuse.check(asked)
    job, resolved = resolve(asked.job)
    asked = _assuming(with_fields(asked, job=job), resolved)
    refuse.check(asked)
    kind = kind_of(job)
    phase = None if asked.phase is Phase.UNKNOWN else asked.phase
    default = ALL if phase is None else str(phase)
    command = _command(job, asked.name)
    left_out = _left_out(job, kind)
    head = part_head.text(asked, kind, default, command, left_out)
    head += part_model.constants(job) + _module(kind).constants(job)
    parts = (head, *_body(job, kind, phase, default))
    text = "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    ast.parse(text)  # what was written is a script, whatever names were in the job
    return Script(text, command, default, asked.assumed, left_out)


def _body(job: Job, kind: str, phase: Phase | None, default: str) -> list[str]:
    trainer = kind == TRAINER
    versions = part_phases.versions(job)
    data = part_data.rows(job) if is_sft(job) else part_data.function(job)
    functions = [part_phases.PHASES, part_model.function(job, kind), data]
    if trainer:
        functions.append(part_trainer.classes(job))
    elif not is_accelerated(job):
        functions += [part_wrap.function(job), part_loop.autocast(job)]
    functions += [
        _module(kind).function(job, phase),
        part_phases.options(job, default, _phases(job, kind, phase)),
        versions,
        part_phases.main(
            job,
            compares=bool(versions),
            makes_group=not trainer and not is_accelerated(job) and job.parallel.strategy != "none",
        ),
    ]
    return functions


def _module(kind: str) -> ModuleType:
    return part_trainer if kind == TRAINER else part_loop


def _phases(job: Job, kind: str, phase: Phase | None) -> list[str]:
    """What the script can stop after."""
    there = {Phase.LOAD, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER}
    if job.evaluation.batch is not None:
        there.add(Phase.EVAL)
        if job.evaluation.generate and kind == LOOP and not job.parallel.strategy.startswith("fsdp"):
            there.add(Phase.GENERATE)
    if phase is Phase.SAVE:
        there.add(Phase.SAVE)
    return [*(str(each) for each in PHASES if each in there), ALL]


def _assuming(asked: Asked, resolved: tuple[str, ...]) -> Asked:
    """With what is taken for granted of the data and the code."""
    job = asked.job
    kind = kind_of(job)
    # What follows from the parameters' type needs no saying.
    chosen = [each for each in resolved if not each.startswith(_FOLLOWS)]
    asked = asked.also(*chosen, *part_data.assumed(job))
    if not job.framework.name:
        asked = asked.also(
            "A plain loop around transformers' model: nothing says whose code trains (--framework transformers: its "
            "Trainer)."
        )
    if kind == LOOP and not task_of(job.model)[0].images:
        asked = asked.also("The model is called with use_cache off, as training scripts mostly do.")
    if kind == LOOP:
        when = "after" if is_accelerated(job) else "at the start of"
        asked = asked.also(f"Gradients are set to None {when} a step, and their norm is not clipped.")
    if job.evaluation.batch is not None and job.evaluation.samples is None:
        asked = asked.also("The evaluation has two batches: nothing says how many samples it has.")
    return asked


def _left_out(job: Job, kind: str) -> tuple[str, ...]:
    others = left_out_of(job) if kind == TRAINER else ""
    return (*_LEFT_OUT, others) if others else _LEFT_OUT


def _command(job: Job, name: str) -> str:
    """How it is started."""
    file = shlex.quote(name)
    ranks = job.parallel.ranks
    if ranks == 1 and job.parallel.strategy == "none":
        return f"python {file}"
    node = job.hardware.per_node
    if node and node < ranks and not ranks % node:
        return (
            f"torchrun --nnodes {ranks // node} --nproc-per-node {node} --rdzv-backend c10d --rdzv-endpoint HOST:29500 "
            f"{file}"
        )
    return f"torchrun --standalone --nproc-per-node {ranks} {file}"
