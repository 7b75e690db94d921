"""Activation checkpointing: keep less of the forward, run it again in backward."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import CheckpointMode, Job
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import dialect, written

_FULL = {
    "transformers": 'gradient_checkpointing=True,\ngradient_checkpointing_kwargs={"use_reentrant": False},',
    "axolotl": "gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false",
    "llamafactory": "disable_gradient_checkpointing: false",
    "torchtune": "enable_activation_checkpointing: True",
    "torchtitan": '[activation_checkpoint]\nmode = "full"',
    "litgpt": "FSDPStrategy(..., activation_checkpointing_policy={Block})   # in the recipe's strategy",
    "lightning": "FSDPStrategy(..., activation_checkpointing_policy={YourBlock})",
    "megatron": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    "deepspeed": "model.gradient_checkpointing_enable()   # of a transformers model",
    "accelerate": 'model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})',
    "": "from torch.utils.checkpoint import checkpoint\n\nfor block in self.blocks:\n"
    "    x = checkpoint(block, x, use_reentrant=False)   # instead of x = block(x)",
}
_EVERY = {
    "torchtitan": '[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "{every}"',
    "": "from torch.utils.checkpoint import checkpoint\n\nfor number, block in enumerate(self.blocks):\n"
    "    if number % {every}:\n        x = block(x)\n    else:\n        x = checkpoint(block, x, use_reentrant=False)",
}
_OPERATORS = {
    "torchtitan": '[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "op"',
    "": "from torch.utils.checkpoint import create_selective_checkpoint_contexts   # keep products and attention",
}
#: From the least that is given up to the most.
_ORDER = {"none": 0, "selective_op": 1, "every_n": 1, "full": 2}


@dataclass(frozen=True)
class Checkpointing(Change):
    """`mode` of checkpointing; `every` for one block of so many."""

    mode: CheckpointMode
    every: int = 1

    code = "checkpointing"
    axis = "checkpointing"

    @property
    def title(self) -> str:
        """With its value."""
        if self.mode == "every_n":
            return f"activation checkpointing of one block in {self.every}"
        return "activation checkpointing" if self.mode == "full" else "selective activation checkpointing"

    def applies(self, job: Job) -> str | None:
        """Where less is given up now."""
        if _ORDER[self.mode] <= _ORDER[job.checkpointing.mode]:
            return f"Checkpointing is {job.checkpointing.mode.replace('_', ' ')} already."
        return None

    def apply(self, job: Job) -> Job:
        """The mode; whether it is reentrant is left to the framework."""
        changed = replace(job.checkpointing, mode=self.mode, every=self.every)
        return replace(job, checkpointing=changed)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By mode."""
        tables = {"full": _FULL, "every_n": _EVERY, "selective_op": _OPERATORS}
        return written(job, tables[self.mode], every=self.every)

    def verify(self, job: Job) -> str:
        """The time and the peak."""
        del job
        more = {"full": "a third", "every_n": f"a {3 * self.every}th", "selective_op": "a tenth"}[self.mode]
        return (
            f"A step takes up to about {more} longer, and max_memory_allocated() at the end of forward falls; "
            "losses are the same."
        )


def options(job: Job) -> tuple[Change, ...]:
    """What the framework offers, the cheapest first."""
    full = Checkpointing("full")
    if dialect(job) == "torchtitan":
        return (Checkpointing("selective_op"), Checkpointing("every_n", 2), full)
    if dialect(job) == "":
        return (Checkpointing("every_n", 2), full)
    return (full,)
