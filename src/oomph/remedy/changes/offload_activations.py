"""What autograd saved, on the host."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_ACTIVATIONS = {
    "trl": "activation_offloading=True,   # SFTConfig",
    "axolotl": "activation_offloading: true",
    "torchtune": "enable_activation_checkpointing: True\nenable_activation_offloading: True",
    "": "with torch.autograd.graph.save_on_cpu(pin_memory=True):\n    loss = model(**batch).loss",
}


@dataclass(frozen=True)
class OffloadActivations(Change):
    """What autograd saves waits on the host."""

    code = "offload-activations"
    axis = "offload-activations"

    @property
    def title(self) -> str:
        """In words."""
        return "saved activations on the host"

    def applies(self, job: Job) -> str | None:
        """Where they are on the card."""
        if job.activation_offload:
            return "Saved activations are on the host already."
        if job.compile:
            return "Hooks on saved tensors do not go with a compiled model."
        return None

    def apply(self, job: Job) -> Job:
        """The flag."""
        return replace(job, activation_offload=True)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _ACTIVATIONS)

    def verify(self, job: Job) -> str:
        """The peak."""
        del job
        return "The peak at the end of forward falls by the saved activations; losses are the same."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (OffloadActivations(),)
