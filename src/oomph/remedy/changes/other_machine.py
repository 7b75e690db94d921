"""Another machine type."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.hardware.tables import Machine, all_gpus, all_machines
from oomph.job.model import Job
from oomph.remedy.changes.base import EVERYWHERE, Change

#: How people write clouds, and what the table calls them.
CLOUDS = {"gcp": "Google Cloud", "aws": "AWS", "azure": "Azure", "lambda": "Lambda"}


@dataclass(frozen=True)
class OtherMachine(Change):
    """One machine of a type, all of its GPUs; the samples of a step stay where they divide."""

    machine: Machine

    code = "other-machine"
    axis = "machine"
    phases = EVERYWHERE
    numerics = "close"
    needs = "machine"

    @property
    def title(self) -> str:
        """With its name."""
        return f"a machine of type {self.machine.name} ({self.machine.count} x {self.machine.gpu})"

    def applies(self, job: Job) -> str | None:
        """Where the ranks of one copy divide its GPUs."""
        inner = job.parallel.tensor * job.parallel.context * job.parallel.pipeline
        if self.machine.count == 0:
            return "It has a part of one GPU."
        if self.machine.count % inner:
            return f"Its {self.machine.count} GPUs cannot be divided into groups of {inner}."
        return None

    def apply(self, job: Job) -> Job:
        """Data ranks become as many as it has; accumulation makes up for it. Without a strategy for several ranks, one
        that keeps memory as it is (DDP)."""
        inner = job.parallel.tensor * job.parallel.context * job.parallel.pipeline
        data = self.machine.count // inner
        everything = job.batch.micro * job.batch.accumulation * job.parallel.data
        steps = max(1, everything // (job.batch.micro * data))
        strategy = job.parallel.strategy
        if data > 1 and strategy == "none":
            strategy = "ddp"
        if data == 1 and not strategy.startswith(("fsdp", "zero")):
            strategy = "none"
        hardware = replace(
            job.hardware,
            gpu=self.machine.gpu,
            machine=self.machine.name,
            gpus=self.machine.count,
            per_node=None,
            free_bytes=None,
            capacity_bytes=None,
            host_bytes=self.machine.host_bytes,
        )
        parallel = replace(job.parallel, data=data, strategy=strategy, shard_size=None)
        return replace(
            job, hardware=hardware, parallel=parallel, batch=replace(job.batch, accumulation=steps)
        )

    def lines(self, job: Job) -> tuple[str, ...]:
        """Nothing in the job but the ranks."""
        del job
        return (f"# run on one {self.machine.name} ({self.machine.provider}): {self.machine.count} ranks",)

    def verify(self, job: Job) -> str:
        """The cards."""
        del job
        return "nvidia-smi lists the cards; torch.distributed.get_world_size() is their number."


def machines(clouds: tuple[str, ...]) -> tuple[OtherMachine, ...]:
    """Every machine type of these clouds (CLOUDS) with whole GPUs of NVIDIA."""
    providers = {CLOUDS[each] for each in clouds}
    cuda = {each.short_name for each in all_gpus() if each.is_cuda and each.total_bytes}
    return tuple(
        OtherMachine(each)
        for each in all_machines()
        if each.provider in providers and each.count and each.gpu in cuda
    )
