"""Gradients reduced after every micro-batch, where the loop would keep whole ones until the last."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import STEP, TRAINING, Change
from oomph.remedy.changes.written import ON_TRAINER, dialect, written

_LINES = {
    "transformers": 'accelerator_config={"gradient_accumulation_kwargs": {"sync_each_batch": True}},',
    "axolotl": "accelerator_config:\n  gradient_accumulation_kwargs:\n    sync_each_batch: true",
    "accelerate": "Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps={steps}, "
    "sync_each_batch=True))",
    "": "model.set_requires_gradient_sync(True)   # in every micro-batch; no model.no_sync()",
}


@dataclass(frozen=True)
class SyncEachBatch(Change):
    """accelerate's loop leaves gradients of all micro-batches but the last unreduced: under FSDP whole gradients stay
    on every rank until then."""

    code = "sync-each-batch"
    axis = "gradient-sync"
    numerics = "close"
    phases = TRAINING | STEP

    @property
    def title(self) -> str:
        """In words."""
        return "gradients reduced after every micro-batch"

    def applies(self, job: Job) -> str | None:
        """Where gradients accumulate, and are sharded once they are reduced."""
        if job.batch.accumulation < 2:
            return "There is one micro-batch per step."
        if not job.parallel.strategy.startswith("fsdp") or job.parallel.strategy == "fsdp1_no_shard":
            return f"Under {job.parallel.strategy} reduced gradients take no less."
        if job.parallel.sync_each_batch is not None:
            return "The job says when gradients are reduced."
        if dialect(job) not in (*ON_TRAINER, "accelerate"):
            return f"{job.framework.name} does not leave gradients unreduced, or has no flag for it."
        return None

    def apply(self, job: Job) -> Job:
        """The flag."""
        return replace(job, parallel=replace(job.parallel, sync_each_batch=True))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _LINES, steps=job.batch.accumulation)

    def verify(self, job: Job) -> str:
        """The level between micro-batches."""
        del job
        return (
            "memory_allocated() after the first backward of a step falls by all but a shard of the gradients."
        )


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (SyncEachBatch(),)
