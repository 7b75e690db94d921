"""Evaluation's outputs leave the card batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_KEPT = {
    "transformers": "eval_accumulation_steps=1,",
    "axolotl": "eval_causal_lm_metrics: []",
    "llamafactory": "eval_accumulation_steps: 1",
    "": "outputs.append(logits.argmax(-1).cpu())   # instead of the logits themselves",
}
_NONE = "The job has no evaluation."


@dataclass(frozen=True)
class EvalAccumulation(Change):
    """Outputs go to the host batch by batch."""

    code = "eval-accumulation"
    axis = "evaluation-outputs"
    phases = frozenset({Phase.EVAL})

    @property
    def title(self) -> str:
        """In words."""
        return "evaluation outputs moved to the host batch by batch"

    def applies(self, job: Job) -> str | None:
        """Where they are kept."""
        if job.evaluation.batch is None:
            return _NONE
        if not job.evaluation.keep_logits:
            return "Evaluation keeps no logits."
        if job.evaluation.accumulation_steps == 1:
            return "They move batch by batch already."
        return None

    def apply(self, job: Job) -> Job:
        """After each batch."""
        return replace(job, evaluation=replace(job.evaluation, accumulation_steps=1))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _KEPT)

    def verify(self, job: Job) -> str:
        """The level."""
        del job
        return (
            "memory_allocated() does not grow from batch to batch of an evaluation; the host's memory does."
        )


def options(job: Job) -> tuple[Change, ...]:
    """One, where outputs are kept."""
    return (EvalAccumulation(),) if job.evaluation.keep_logits else ()
