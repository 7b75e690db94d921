"""No accumulation: fewer samples per step."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_LINES = {
    "transformers": "gradient_accumulation_steps=1,",
    "axolotl": "gradient_accumulation_steps: 1",
    "llamafactory": "gradient_accumulation_steps: 1",
    "torchtune": "gradient_accumulation_steps: 1",
    "torchtitan": "[training]\nglobal_batch_size = {all}",
    "litgpt": "--train.global_batch_size {all}",
    "lightning": "Trainer(..., accumulate_grad_batches=1)",
    "megatron": "--global-batch-size {all}",
    "deepspeed": '"gradient_accumulation_steps": 1,',
    "accelerate": "Accelerator(gradient_accumulation_steps=1)",
    "": "accumulation = 1   # step() after every batch",
}


@dataclass(frozen=True)
class EffectiveBatch(Change):
    """Accumulation of 1: no gradients wait while the next forward runs, and a step in backward becomes possible."""

    code = "effective-batch"
    axis = "batch"
    numerics = "changed"
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    needs = "batch"

    @property
    def title(self) -> str:
        """In words."""
        return "no accumulation (a smaller effective batch)"

    def applies(self, job: Job) -> str | None:
        """Where there is accumulation."""
        return None if job.batch.accumulation > 1 else "There is no accumulation."

    def apply(self, job: Job) -> Job:
        """Accumulation of 1."""
        return replace(job, batch=replace(job.batch, accumulation=1))

    def lines(self, job: Job) -> tuple[str, ...]:
        """The number."""
        return written(job, _LINES, all=job.batch.micro * job.parallel.data)

    def verify(self, job: Job) -> str:
        """The steps."""
        times = job.batch.accumulation
        return f"An epoch has {times} times as many optimizer steps; the learning rate may need to follow."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (EffectiveBatch(),)
