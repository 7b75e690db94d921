"""Optimizer states of one byte."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.adam import no_bitsandbytes, not_adam
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_EIGHT = {
    "transformers": 'optim="adamw_bnb_8bit",   # pip install bitsandbytes',
    "axolotl": "optimizer: adamw_bnb_8bit",
    "llamafactory": "optim: adamw_bnb_8bit",
    "torchtune": "optimizer:\n  _component_: bitsandbytes.optim.AdamW8bit",
    "litgpt": "--optimizer bitsandbytes.optim.AdamW8bit",
    "": "bitsandbytes.optim.AdamW8bit(model.parameters(), lr=lr)",
}


@dataclass(frozen=True)
class EightBit(Change):
    """Moments of one byte."""

    code = "eight-bit-optimizer"
    axis = "optimizer"
    numerics = "changed"
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.EVAL})
    needs = "precision"

    @property
    def title(self) -> str:
        """In words."""
        return "8-bit AdamW"

    def applies(self, job: Job) -> str | None:
        """Where states have more bits, and are in one piece."""
        if (why := not_adam(job)) is not None:
            return why
        if job.optimizer.state in ("int8", "int4", "fp8"):
            return f"The states are {job.optimizer.state} already."
        return no_bitsandbytes(job)

    def apply(self, job: Job) -> Job:
        """bitsandbytes in 8 bits; in backward it stays there, and paged it stays paged."""
        impl = job.optimizer.impl if job.optimizer.impl in ("in_backward", "bnb_paged") else "bnb"
        return replace(job, optimizer=replace(job.optimizer, impl=impl, state="int8"))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _EIGHT)

    def verify(self, job: Job) -> str:
        """The dtype."""
        del job
        return 'optimizer.state[p]["state1"].dtype is torch.uint8 for large weights; compare some hundred losses.'


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (EightBit(),)
