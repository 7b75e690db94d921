"""Fewer samples per forward, more accumulation: the effective batch stays."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_LINES = {
    "transformers": "per_device_train_batch_size={micro},\ngradient_accumulation_steps={steps},",
    "axolotl": "micro_batch_size: {micro}\ngradient_accumulation_steps: {steps}",
    "llamafactory": "per_device_train_batch_size: {micro}\ngradient_accumulation_steps: {steps}",
    "torchtune": "batch_size: {micro}\ngradient_accumulation_steps: {steps}",
    "torchtitan": "[training]\nlocal_batch_size = {micro}\nglobal_batch_size = {all}",
    "litgpt": "--train.micro_batch_size {micro} --train.global_batch_size {all}",
    "lightning": "DataLoader(..., batch_size={micro})\nTrainer(..., accumulate_grad_batches={steps})",
    "megatron": "--micro-batch-size {micro} --global-batch-size {all}",
    "deepspeed": '"train_micro_batch_size_per_gpu": {micro},\n"gradient_accumulation_steps": {steps},',
    "accelerate": "DataLoader(..., batch_size={micro})\nAccelerator(gradient_accumulation_steps={steps})",
    "": "batch_size = {micro}   # of the DataLoader\naccumulation = {steps}   # (loss / accumulation).backward(); "
    "step() after so many batches",
}


@dataclass(frozen=True)
class MicroBatch(Change):
    """`micro` samples per forward, as many more forwards per step."""

    micro: int

    code = "micro-batch"
    axis = "batch"
    numerics = "close"

    @property
    def title(self) -> str:
        """With its value."""
        return f"micro-batch {self.micro} with accumulation"

    def applies(self, job: Job) -> str | None:
        """Where the product of micro-batch and accumulation can stay."""
        if job.batch.micro <= 1:
            return "The micro-batch is 1 already."
        if self.micro >= job.batch.micro:
            return f"The micro-batch is {job.batch.micro} already."
        if job.batch.micro * job.batch.accumulation % self.micro:
            return f"{self.micro} does not divide the {job.batch.micro * job.batch.accumulation} samples of a step."
        if job.optimizer.impl == "in_backward":
            return "An optimizer that steps in backward cannot accumulate gradients."
        return None

    def apply(self, job: Job) -> Job:
        """The same number of samples per step."""
        steps = job.batch.micro * job.batch.accumulation // self.micro
        return replace(job, batch=replace(job.batch, micro=self.micro, accumulation=steps))

    def lines(self, job: Job) -> tuple[str, ...]:
        """Both numbers."""
        batch = self.apply(job).batch
        everything = batch.micro * batch.accumulation * job.parallel.data
        return written(job, _LINES, micro=batch.micro, steps=batch.accumulation, all=everything)

    def verify(self, job: Job) -> str:
        """The product."""
        batch = self.apply(job).batch
        return (
            f"{batch.micro} x {batch.accumulation} = {batch.micro * batch.accumulation} samples per rank and step, "
            "as before; the number of optimizer steps of an epoch does not change."
        )


def options(job: Job) -> tuple[Change, ...]:
    """Each smaller divisor of the micro-batch, the largest first."""
    micro = job.batch.micro
    return tuple(MicroBatch(each) for each in range(micro - 1, 0, -1) if micro % each == 0)
