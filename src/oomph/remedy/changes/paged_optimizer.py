"""Optimizer states that the driver moves to the host."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.adam import no_bitsandbytes, not_adam
from oomph.remedy.changes.base import STEP, Change, Numerics
from oomph.remedy.changes.written import written

_PAGED = {
    "transformers": 'optim="paged_adamw_{bits}bit",   # pip install bitsandbytes',
    "axolotl": "optimizer: paged_adamw_{bits}bit",
    "llamafactory": "optim: paged_adamw_{bits}bit",
    "torchtune": "optimizer:\n  _component_: bitsandbytes.optim.PagedAdamW{class}",
    "litgpt": "--optimizer bitsandbytes.optim.PagedAdamW{class}",
    "": "bitsandbytes.optim.PagedAdamW{class}(model.parameters(), lr=lr)",
}


@dataclass(frozen=True)
class Paged(Change):
    """bitsandbytes' paged states: outside PyTorch's allocator; the driver moves them to the host when the card is full.
    With `bits` 8 they are quantised too."""

    bits: int = 32

    axis = "optimizer"
    code = "paged-optimizer"
    phases = STEP

    @property
    def title(self) -> str:
        """With its value."""
        return f"paged {self.bits}-bit AdamW"

    @property
    def needs(self) -> str:
        """8 bits are fewer."""
        return "precision" if self.bits == 8 else ""

    @property
    def numerics(self) -> Numerics:
        """8 bits are fewer."""
        return "changed" if self.bits == 8 else "close"

    def applies(self, job: Job) -> str | None:
        """Where states are on the card, and in one piece."""
        if (why := not_adam(job)) is not None:
            return why
        if job.optimizer.offload == "paged" or job.optimizer.impl == "bnb_paged":
            return "The states are paged already."
        return no_bitsandbytes(job)

    def apply(self, job: Job) -> Job:
        """bitsandbytes, paged."""
        state = "int8" if self.bits == 8 else "fp32"
        optimizer = replace(job.optimizer, impl="bnb_paged", offload="paged", state=state)
        return replace(job, optimizer=optimizer)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        name = "8bit" if self.bits == 8 else ""
        return written(job, _PAGED, **{"bits": self.bits, "class": name})

    def verify(self, job: Job) -> str:
        """Where the states are."""
        del job
        return "memory_allocated() after the first step does not rise by the states; a step slows where pages move."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (Paged(32),)


def options_in_bytes(job: Job) -> tuple[Change, ...]:
    """One, in 8 bits."""
    del job
    return (Paged(8),)
