"""Optimizer states on the host."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import ZERO, dialect, written

_ZERO_OPTIMIZER = {
    "": '"zero_optimization": {"stage": {stage}, "offload_optimizer": {"device": "cpu", "pin_memory": true}}',
}
_OPTIMIZER = {
    "megatron": "--optimizer-cpu-offload",
    "": "from torchao.optim import CPUOffloadOptimizer\n\n"
    "optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, lr=lr)",
}


@dataclass(frozen=True)
class OffloadOptimizer(Change):
    """States on the host, and the step with them."""

    code = "offload-optimizer"
    axis = "offload"
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.EVAL, Phase.GENERATE})

    @property
    def title(self) -> str:
        """In words."""
        return "optimizer states on the host"

    def applies(self, job: Job) -> str | None:
        """Where DeepSpeed does it, or one process holds everything."""
        if job.optimizer.offload != "none" or job.parallel.offload_parameters:
            return "The states are off the card already."
        if job.parallel.strategy in ZERO or dialect(job) == "megatron":
            return None
        if job.parallel.strategy not in ("none", "ddp") or job.optimizer.impl in (
            "bnb",
            "bnb_paged",
            "in_backward",
        ):
            return "It needs ZeRO's offload, or whole parameters and a plain optimizer (torchao's CPUOffloadOptimizer)."
        return None

    def apply(self, job: Job) -> Job:
        """States on the host."""
        return replace(job, optimizer=replace(job.optimizer, offload="cpu"))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        if job.parallel.strategy in ZERO:
            return written(job, _ZERO_OPTIMIZER, stage=job.parallel.strategy[-1])
        return written(job, _OPTIMIZER)

    def verify(self, job: Job) -> str:
        """The states."""
        del job
        return "memory_allocated() after the first step does not rise by the states; the step is bound by the host."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (OffloadOptimizer(),)
