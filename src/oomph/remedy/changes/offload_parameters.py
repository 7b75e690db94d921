"""Parameters that are on the card only when they are needed."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.written import dialect, major, written

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


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (OffloadParameters(),)
