"""One kernel for the optimizer's step."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.adam import not_adam
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import ZERO, written

_FUSED = {
    "transformers": 'optim="adamw_torch_fused",',
    "axolotl": "optimizer: adamw_torch_fused",
    "llamafactory": "optim: adamw_torch_fused",
    "torchtune": "optimizer:\n  fused: True",
    "torchtitan": '[optimizer]\nimplementation = "fused"',
    "litgpt": "optimizer:\n  init_args:\n    fused: true",
    "": "torch.optim.AdamW(model.parameters(), lr=lr, fused=True)",
}


@dataclass(frozen=True)
class Fused(Change):
    """One kernel, and no temporary set of second moments."""

    code = "foreach-off"
    axis = "optimizer"
    numerics = "close"
    phases = frozenset({Phase.OPTIMIZER})

    @property
    def title(self) -> str:
        """In words."""
        return "fused AdamW"

    def applies(self, job: Job) -> str | None:
        """Where foreach runs."""
        if (why := not_adam(job)) is not None:
            return why
        if job.optimizer.impl not in ("foreach", "capturable"):
            return f"The optimizer is {job.optimizer.impl} already."
        if job.parallel.strategy in ZERO:
            return "DeepSpeed brings its own fused Adam."
        return None

    def apply(self, job: Job) -> Job:
        """The implementation."""
        return replace(job, optimizer=replace(job.optimizer, impl="fused"))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _FUSED)

    def verify(self, job: Job) -> str:
        """The peak within the step."""
        del job
        return "max_memory_allocated(), reset before optimizer.step(), no longer rises in it; losses agree to rounding."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (Fused(),)
