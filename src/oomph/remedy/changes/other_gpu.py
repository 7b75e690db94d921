"""Another GPU."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.tables import all_gpus
from oomph.job.model import Job
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.cards import card

_BF16 = (8, 0)
#: What counts as more memory: cards of one size differ by less.
_MORE = 1.1


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


def options(job: Job) -> tuple[Change, ...]:
    """Datacenter GPUs of NVIDIA with more memory, the smallest first, one for each size."""
    found = [each for each in all_gpus() if each.is_cuda and each.kind == "datacenter" and each.total_bytes]
    sizes: dict[int, OtherGpu] = {}
    for each in sorted(found, key=lambda one: one.total_bytes):
        change = OtherGpu(each.short_name)
        if change.applies(job) is None:
            sizes.setdefault(each.memory_gb, change)
    return tuple(sizes.values())
