"""Fewer tokens per sample: only where the user allows it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_LINES = {
    "transformers": "tokenizer(..., truncation=True, max_length={length})",
    "trl": "max_length={length},   # SFTConfig",
    "axolotl": "sequence_len: {length}",
    "llamafactory": "cutoff_len: {length}",
    "torchtune": "tokenizer:\n  max_seq_len: {length}",
    "torchtitan": "[training]\nseq_len = {length}",
    "litgpt": "--train.max_seq_length {length}",
    "megatron": "--seq-length {length}",
    "": "sequence = {length}   # where samples are tokenised, cut or packed",
}
#: Sequences are not shortened below this by a search.
SHORTEST = 512


@dataclass(frozen=True)
class ShorterSequence(Change):
    """`length` tokens per sample."""

    length: int

    code = "shorter-sequence"
    axis = "sequence"
    numerics = "changed"
    needs = "seq"

    @property
    def title(self) -> str:
        """With its value."""
        return f"sequences of {self.length:,} tokens"

    def applies(self, job: Job) -> str | None:
        """Where there is text, and it is longer."""
        if job.batch.sequence is None:
            return "The job has no text."
        if self.length >= job.batch.sequence:
            return f"Sequences have {job.batch.sequence:,} tokens already."
        return None

    def apply(self, job: Job) -> Job:
        """Training only: evaluation that follows the training's length follows it still."""
        return replace(job, batch=replace(job.batch, sequence=self.length))

    def lines(self, job: Job) -> tuple[str, ...]:
        """The number."""
        return written(job, _LINES, length=self.length)

    def verify(self, job: Job) -> str:
        """The shape."""
        del job
        return f'batch["input_ids"].shape[1] is at most {self.length}; the model sees less context.'


def options(job: Job) -> tuple[Change, ...]:
    """Halves, down to 512 tokens."""
    made: list[Change] = []
    length = (job.batch.sequence or 0) // 2
    while length >= SHORTEST:
        made.append(ShorterSequence(length))
        length //= 2
    return tuple(made)
