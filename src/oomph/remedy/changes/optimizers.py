"""Other implementations of the same optimizer: fused, paged, in 8 bits, in backward."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import STEP, Change, Numerics
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
_PAGED = {
    "transformers": 'optim="paged_adamw_{bits}bit",   # pip install bitsandbytes',
    "axolotl": "optimizer: paged_adamw_{bits}bit",
    "llamafactory": "optim: paged_adamw_{bits}bit",
    "torchtune": "optimizer:\n  _component_: bitsandbytes.optim.PagedAdamW{class}",
    "litgpt": "--optimizer bitsandbytes.optim.PagedAdamW{class}",
    "": "bitsandbytes.optim.PagedAdamW{class}(model.parameters(), lr=lr)",
}
_EIGHT = {
    "transformers": 'optim="adamw_bnb_8bit",   # pip install bitsandbytes',
    "axolotl": "optimizer: adamw_bnb_8bit",
    "llamafactory": "optim: adamw_bnb_8bit",
    "torchtune": "optimizer:\n  _component_: bitsandbytes.optim.AdamW8bit",
    "litgpt": "--optimizer bitsandbytes.optim.AdamW8bit",
    "": "bitsandbytes.optim.AdamW8bit(model.parameters(), lr=lr)",
}
_BACKWARD = {
    "torchtune": "optimizer_in_bwd: True\ngradient_accumulation_steps: 1\nclip_grad_norm: null",
    "torchtitan": "[optimizer]\nearly_step_in_backward = true",
    "": "optimizers = {p: torch.optim.AdamW([p], lr=lr, fused=True) for p in model.parameters() if p.requires_grad}\n\n"
    "def step(p):\n    optimizers[p].step()\n    optimizers[p].zero_grad()\n\n"
    "for p in optimizers:\n    p.register_post_accumulate_grad_hook(step)\n"
    "# no optimizer.step() and no clip_grad_norm_ in the loop",
}
_ADAM = ("adamw", "adam")


def _not_adam(job: Job) -> str | None:
    if job.optimizer.name not in _ADAM:
        return f"The optimizer is {job.optimizer.name}, not Adam."
    if job.optimizer.offload in ("cpu", "nvme") or job.parallel.offload_parameters:
        return "The optimizer steps on the host already."
    return None


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
        if (why := _not_adam(job)) is not None:
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
        if (why := _not_adam(job)) is not None:
            return why
        if job.optimizer.offload == "paged" or job.optimizer.impl == "bnb_paged":
            return "The states are paged already."
        return _no_bitsandbytes(job)

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
        if (why := _not_adam(job)) is not None:
            return why
        if job.optimizer.state in ("int8", "int4", "fp8"):
            return f"The states are {job.optimizer.state} already."
        return _no_bitsandbytes(job)

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
        return _not_adam(job)

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


def _no_bitsandbytes(job: Job) -> str | None:
    if job.parallel.strategy in ZERO:
        return "DeepSpeed partitions its own fp32 states."
    if job.parallel.strategy.startswith("fsdp2"):
        return "bitsandbytes' optimizers do not step the DTensors of FSDP2."
    if job.parallel.tensor > 1:
        return "bitsandbytes' optimizers do not step the DTensors of tensor parallelism."
    return None


def options(job: Job) -> tuple[Change, ...]:
    """From the least that is given up to the most."""
    del job
    return (Fused(), InBackward(), Paged(32), EightBit(), Paged(8))
