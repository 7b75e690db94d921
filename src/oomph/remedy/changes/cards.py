"""What the job's GPU can do, as far as it is known."""

from __future__ import annotations

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu
from oomph.job.model import Job


def card(job: Job) -> Gpu | None:
    """The job's GPU; None where it names none that is known."""
    if not job.hardware.gpu:
        return None
    try:
        return gpu(job.hardware.gpu)
    except UsageError:
        return None


def capability(job: Job) -> tuple[int, int] | None:
    """CUDA's compute capability; None where it is not known."""
    found = card(job)
    return found.capability if found is not None and found.is_cuda else None


def per_node(job: Job) -> int:
    """GPUs of one machine: as the job says, as its machine type has, else all of them (8 at most)."""
    if job.hardware.per_node:
        return job.hardware.per_node
    if job.hardware.machine:
        from oomph.hardware.names import machine_type

        try:
            return max(1, machine_type(job.hardware.machine).count)
        except UsageError:
            pass
    return min(8, max(job.hardware.gpus, job.parallel.ranks))
