"""Generations of fewer tokens."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import Change, Numerics
from oomph.remedy.changes.written import written

_GENERATE = {
    "transformers": "generation_max_length={tokens},   # Seq2SeqTrainingArguments",
    "": "model.generate(..., max_new_tokens={tokens})",
}
_NONE = "The job has no evaluation."


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


def options(job: Job) -> tuple[Change, ...]:
    """Halves, down to 64."""
    made: list[Change] = []
    tokens = job.evaluation.generate // 2
    while tokens >= 64:
        made.append(GenerateShorter(tokens))
        tokens //= 2
    return tuple(made)
