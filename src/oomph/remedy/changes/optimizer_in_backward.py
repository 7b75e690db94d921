"""An optimizer that steps in backward."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.adam import not_adam
from oomph.remedy.changes.base import STEP, Change
from oomph.remedy.changes.written import written

_BACKWARD = {
    "torchtune": "optimizer_in_bwd: True\ngradient_accumulation_steps: 1\nclip_grad_norm: null",
    "torchtitan": "[optimizer]\nearly_step_in_backward = true",
    "": "optimizers = {p: torch.optim.AdamW([p], lr=lr, fused=True) for p in model.parameters() if p.requires_grad}\n\n"
    "def step(p):\n    optimizers[p].step()\n    optimizers[p].zero_grad()\n\n"
    "for p in optimizers:\n    p.register_post_accumulate_grad_hook(step)\n"
    "# no optimizer.step() and no clip_grad_norm_ in the loop",
}


@dataclass(frozen=True)
class InBackward(Change):
    """Each gradient is used and freed as soon as it is there."""

    code = "optimizer-in-backward"
    axis = "optimizer"
    numerics = "close"
    effort = "code"
    phases = STEP

    @property
    def title(self) -> str:
        """In words."""
        return "the optimizer steps in backward, gradient by gradient"

    def applies(self, job: Job) -> str | None:
        """Where gradients are used at once and by this rank alone."""
        if job.optimizer.impl == "in_backward":
            return "The optimizer steps in backward already."
        if job.batch.accumulation > 1:
            return "Gradients are accumulated: they have to wait for the last micro-batch."
        if job.parallel.strategy != "none":
            return "Gradients are reduced over the ranks after they are made, and stepped then."
        if job.precision.master or job.precision.compute == "fp16":
            return "Gradients are scaled, or copied to fp32, all together before the step."
        return not_adam(job)

    def apply(self, job: Job) -> Job:
        """The same states, stepped in backward."""
        state = job.optimizer.state
        return replace(job, optimizer=replace(job.optimizer, impl="in_backward", state=state))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _BACKWARD)

    def verify(self, job: Job) -> str:
        """No gradients."""
        del job
        return "After backward every p.grad is None. Clipping by the norm of all gradients is no longer possible."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (InBackward(),)
