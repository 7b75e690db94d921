"""Keeping on the host what the card does not need at the moment: parameters, optimizer states, activations."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.written import ZERO, dialect, major, written

_PARAMETERS = {
    "transformers": 'fsdp_config={"cpu_offload": True, ...},',
    "axolotl": "fsdp_config:\n  offload_params: true",
    "torchtune": "fsdp_cpu_offload: True",
    "torchtitan": "[training]\nenable_cpu_offload = true",
    "lightning": "FSDPStrategy(..., cpu_offload=True)",
    "accelerate": "fsdp_config:\n  fsdp_offload_params: true",
    "": "from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard\n\n"
    "fully_shard(block, offload_policy=CPUOffloadPolicy())   # and the model",
}
_ZERO_PARAMETERS = {
    "": '"zero_optimization": {"stage": 3,\n'
    '  "offload_param": {"device": "cpu", "pin_memory": true},\n'
    '  "offload_optimizer": {"device": "cpu", "pin_memory": true}}',
}
_ZERO_OPTIMIZER = {
    "": '"zero_optimization": {"stage": {stage}, "offload_optimizer": {"device": "cpu", "pin_memory": true}}',
}
_OPTIMIZER = {
    "megatron": "--optimizer-cpu-offload",
    "": "from torchao.optim import CPUOffloadOptimizer\n\n"
    "optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, lr=lr)",
}
_ACTIVATIONS = {
    "trl": "activation_offloading=True,   # SFTConfig",
    "axolotl": "activation_offloading: true",
    "torchtune": "enable_activation_checkpointing: True\nenable_activation_offloading: True",
    "": "with torch.autograd.graph.save_on_cpu(pin_memory=True):\n    loss = model(**batch).loss",
}


@dataclass(frozen=True)
class OffloadParameters(Change):
    """Shards, gradients and states live on the host; a unit's parameters come to the card when it runs."""

    code = "offload-parameters"
    axis = "offload"
    phases = EVERYWHERE

    @property
    def title(self) -> str:
        """In words."""
        return "parameters, gradients and states on the host"

    def applies(self, job: Job) -> str | None:
        """Where units are gathered when they run: FSDP and ZeRO-3."""
        if job.parallel.offload_parameters:
            return "Parameters are on the host already."
        if job.parallel.strategy != "zero3" and not job.parallel.strategy.startswith(("fsdp1", "fsdp2")):
            return f"Under {job.parallel.strategy} nothing brings parameters back to the card: it needs FSDP or ZeRO-3."
        if job.parallel.strategy == "fsdp1_no_shard":
            return "NO_SHARD keeps whole parameters on the card."
        if job.optimizer.impl in ("bnb", "bnb_paged", "torchao"):
            return f"The optimizer ({job.optimizer.impl}) steps on the card."
        return None

    def apply(self, job: Job) -> Job:
        """The step goes to the host with them."""
        parallel = replace(job.parallel, offload_parameters=True)
        optimizer = replace(job.optimizer, offload="cpu")
        return replace(job, parallel=parallel, optimizer=optimizer)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        version = major(job, "transformers")
        if dialect(job) in ("transformers", "trl") and version is not None and version < 5:
            if job.parallel.strategy != "zero3":
                return ('fsdp="full_shard auto_wrap offload",',)
        return written(job, _ZERO_PARAMETERS if job.parallel.strategy == "zero3" else _PARAMETERS)

    def verify(self, job: Job) -> str:
        """The device."""
        del job
        return 'next(model.parameters()).device is "cpu" between steps; the host needs the bytes that the plan lists.'


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
    """Optimizer states first: they are needed once per step."""
    del job
    return (OffloadOptimizer(), OffloadParameters())


def activation_options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (OffloadActivations(),)
