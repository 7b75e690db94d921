"""Another GPU, or another machine type."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.tables import Machine, all_gpus, all_machines
from oomph.job.model import Job
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.cards import card

_BF16 = (8, 0)
#: What counts as more memory: cards of one size differ by less.
_MORE = 1.1
#: How people write clouds, and what the table calls them.
CLOUDS = {"gcp": "Google Cloud", "aws": "AWS", "azure": "Azure", "lambda": "Lambda"}


@dataclass(frozen=True)
class OtherGpu(Change):
    """As many of another GPU."""

    gpu: str

    code = "other-gpu"
    axis = "machine"
    phases = EVERYWHERE
    numerics = "close"
    needs = "machine"

    @property
    def title(self) -> str:
        """With its name."""
        return f"GPUs of another kind: {self.gpu}"

    def applies(self, job: Job) -> str | None:
        """Where it has more memory."""
        now, then = card(job), gpu_named(self.gpu)
        if now is not None and then.total_bytes < now.total_bytes * _MORE:
            return f"It has hardly more memory than the {now.name}."
        if job.precision.compute == "bf16" and then.capability < _BF16:
            return f"The {then.name} has no bf16."
        if job.hardware.capacity_bytes is not None:
            return "The job gives a capacity and not a GPU."
        return None

    def apply(self, job: Job) -> Job:
        """The same number of them."""
        return replace(job, hardware=replace(job.hardware, gpu=self.gpu, machine="", free_bytes=None))

    def lines(self, job: Job) -> tuple[str, ...]:
        """Nothing in the job."""
        return (f"# run on {max(1, job.hardware.gpus)} x {self.gpu}; the job's settings stay",)

    def verify(self, job: Job) -> str:
        """The card."""
        del job
        return "nvidia-smi shows the card, and with how much memory."


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


def options(job: Job) -> tuple[Change, ...]:
    """Datacenter GPUs of NVIDIA with more memory, the smallest first, one for each size."""
    found = [each for each in all_gpus() if each.is_cuda and each.kind == "datacenter" and each.total_bytes]
    sizes: dict[int, OtherGpu] = {}
    for each in sorted(found, key=lambda one: one.total_bytes):
        change = OtherGpu(each.short_name)
        if change.applies(job) is None:
            sizes.setdefault(each.memory_gb, change)
    return tuple(sizes.values())


def machines(clouds: tuple[str, ...]) -> tuple[OtherMachine, ...]:
    """Every machine type of these clouds (CLOUDS) with whole GPUs of NVIDIA."""
    providers = {CLOUDS[each] for each in clouds}
    cuda = {each.short_name for each in all_gpus() if each.is_cuda and each.total_bytes}
    return tuple(
        OtherMachine(each)
        for each in all_machines()
        if each.provider in providers and each.count and each.gpu in cuda
    )
