"""The allocator's expandable segments: less of what is reserved and not used. Allocated bytes stay."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job
from oomph.remedy.changes.base import EVERYWHERE, Change

_SETTING = "expandable_segments:True"
#: c10/cuda/CUDACachingAllocator of PyTorch 2.1 has them first.
_SINCE = (2, 1)


@dataclass(frozen=True)
class ExpandableSegments(Change):
    """One growing segment per pool instead of many of fixed sizes."""

    code = "expandable-segments"
    axis = "allocator"
    phases = EVERYWHERE

    @property
    def title(self) -> str:
        """In words."""
        return "expandable segments"

    def applies(self, job: Job) -> str | None:
        """Where PyTorch has them and they are off."""
        if "expandable_segments:true" in job.allocator.lower().replace(" ", ""):
            return "They are on already."
        torch = job.framework.version("torch")
        if torch is not None and torch < _SINCE:
            return "PyTorch has them since 2.1."
        if "cudamallocasync" in job.allocator.lower():
            return "cudaMallocAsync has no segments."
        return None

    def apply(self, job: Job) -> Job:
        """Beside what is set."""
        kept = [part for part in job.allocator.split(",") if part and "expandable_segments" not in part]
        return replace(job, allocator=",".join([*kept, _SETTING]))

    def lines(self, job: Job) -> tuple[str, ...]:
        """A variable of the environment, read when CUDA is first used."""
        return (f"export PYTORCH_CUDA_ALLOC_CONF={self.apply(job).allocator}",)

    def verify(self, job: Job) -> str:
        """The gap."""
        del job
        return (
            "memory_reserved() - memory_allocated() at the peak shrinks; memory_allocated() does not change."
        )


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (ExpandableSegments(),)
