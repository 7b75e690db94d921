"""Contradictions in what a job says of its objective."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.job.model import Job

_COMPARES = ("dpo", "kto", "grpo", "rloo")
_GENERATES = ("grpo", "rloo")


def objective(job: Job) -> Iterator[str]:
    """What cannot be, one sentence each."""
    its, batch = job.objective, job.batch
    if its.completion is not None and not 1 <= its.completion < (batch.sequence or 1):
        yield (
            f"objective.completion is {its.completion}; a sample of {batch.sequence} tokens (its prompt included) has "
            f"completions of 1 to {(batch.sequence or 1) - 1}."
        )
    if its.steps_per_generation is not None and not 1 <= its.steps_per_generation <= 10**6:
        yield f"objective.steps_per_generation is {its.steps_per_generation}; it must be from 1 to 1,000,000."
    if not 0 < its.vllm_memory <= 1:
        yield f"objective.vllm_memory is {its.vllm_memory}; it is a share of the card, above 0 and at most 1."
    if its.reference == "adapters_off" and job.method.lora is None:
        yield "objective.reference adapters_off needs adapters, and the job has none."
    if its.reference not in (None, "without") and its.name not in _COMPARES:
        yield f"objective.reference is {its.reference}, and an objective {its.name} has no reference model."
    if its.rollouts != "transformers" and its.name not in _GENERATES:
        yield f"objective.rollouts is {its.rollouts}, and an objective {its.name} generates nothing."
    yield from _groups(job)


def _groups(job: Job) -> Iterator[str]:
    """grpo_config.py: whole groups of at least two."""
    its, batch = job.objective, job.batch
    if its.name not in _GENERATES:
        return
    if (batch.sequence or 0) < 2:
        yield f"A sample of {batch.sequence} tokens has no room for a prompt and a completion."
    if its.generations < 2:
        yield f"objective.generations is {its.generations}; completions are compared with each other, so 2 at least."
        return
    steps = its.steps_per_generation or batch.accumulation
    made = batch.micro * job.parallel.data * steps
    if made % its.generations:
        yield (
            f"{made:,} completions ({batch.micro} x {job.parallel.data} ranks x {steps} micro-batches) are no whole "
            f"groups of {its.generations} (objective.generations)."
        )
