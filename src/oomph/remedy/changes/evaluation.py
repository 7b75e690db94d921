"""Evaluation that needs less: fewer samples at a time, outputs that leave the card, shorter generations."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import EVALUATION, Change, Numerics
from oomph.remedy.changes.written import written

_BATCH = {
    "transformers": "per_device_eval_batch_size={batch},",
    "axolotl": "eval_batch_size: {batch}",
    "llamafactory": "per_device_eval_batch_size: {batch}",
    "torchtune": "batch_size_val: {batch}",
    "": "batch_size = {batch}   # of the evaluation's DataLoader",
}
_KEPT = {
    "transformers": "eval_accumulation_steps=1,",
    "axolotl": "eval_causal_lm_metrics: []",
    "llamafactory": "eval_accumulation_steps: 1",
    "": "outputs.append(logits.argmax(-1).cpu())   # instead of the logits themselves",
}
_GENERATE = {
    "transformers": "generation_max_length={tokens},   # Seq2SeqTrainingArguments",
    "": "model.generate(..., max_new_tokens={tokens})",
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


@dataclass(frozen=True)
class GenerateShorter(Change):
    """`tokens` new tokens per sample."""

    tokens: int

    code = "generate-shorter"
    axis = "generation"
    phases = frozenset({Phase.GENERATE})
    needs = "seq"

    @property
    def numerics(self) -> Numerics:
        """Another result."""
        return "changed"

    @property
    def title(self) -> str:
        """With its value."""
        return f"at most {self.tokens} new tokens per sample in evaluation"

    def applies(self, job: Job) -> str | None:
        """Where more are made."""
        if job.evaluation.batch is None:
            return _NONE
        if self.tokens >= job.evaluation.generate:
            return f"It generates {job.evaluation.generate} tokens already."
        return None

    def apply(self, job: Job) -> Job:
        """The number."""
        return replace(job, evaluation=replace(job.evaluation, generate=self.tokens))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _GENERATE, tokens=self.tokens)

    def verify(self, job: Job) -> str:
        """The lengths."""
        del job
        return "Generated sequences are cut: look whether answers still end."


def batch_options(job: Job) -> tuple[Change, ...]:
    """Halves, down to 1."""
    made: list[Change] = []
    batch = (job.evaluation.batch or 0) // 2
    while batch >= 1:
        made.append(EvalBatch(batch))
        batch //= 2
    return tuple(made)


def output_options(job: Job) -> tuple[Change, ...]:
    """One, where outputs are kept."""
    return (EvalAccumulation(),) if job.evaluation.keep_logits else ()


def generation_options(job: Job) -> tuple[Change, ...]:
    """Halves, down to 64."""
    made: list[Change] = []
    tokens = job.evaluation.generate // 2
    while tokens >= 64:
        made.append(GenerateShorter(tokens))
        tokens //= 2
    return tuple(made)
