"""Evaluation of fewer samples at a time."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import EVALUATION, Change
from oomph.remedy.changes.written import written

_BATCH = {
    "transformers": "per_device_eval_batch_size={batch},",
    "axolotl": "eval_batch_size: {batch}",
    "llamafactory": "per_device_eval_batch_size: {batch}",
    "torchtune": "batch_size_val: {batch}",
    "": "batch_size = {batch}   # of the evaluation's DataLoader",
}
_NONE = "The job has no evaluation."


@dataclass(frozen=True)
class EvalBatch(Change):
    """`batch` samples at a time."""

    batch: int

    code = "eval-batch"
    axis = "evaluation"
    phases = EVALUATION

    @property
    def title(self) -> str:
        """With its value."""
        return f"evaluation of {self.batch} samples at a time"

    def applies(self, job: Job) -> str | None:
        """Where there are more."""
        if job.evaluation.batch is None:
            return _NONE
        if self.batch >= job.evaluation.batch:
            return f"It evaluates {job.evaluation.batch} samples at a time already."
        return None

    def apply(self, job: Job) -> Job:
        """The number."""
        return replace(job, evaluation=replace(job.evaluation, batch=self.batch))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _BATCH, batch=self.batch)

    def verify(self, job: Job) -> str:
        """The results."""
        del job
        return "The metrics are the same; evaluation takes longer."


def options(job: Job) -> tuple[Change, ...]:
    """Halves, down to 1."""
    made: list[Change] = []
    batch = (job.evaluation.batch or 0) // 2
    while batch >= 1:
        made.append(EvalBatch(batch))
        batch //= 2
    return tuple(made)
