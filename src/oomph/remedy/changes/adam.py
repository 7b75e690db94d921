"""What changes of the optimizer have in common: what is not Adam, and where bitsandbytes does not go."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.remedy.changes.written import ZERO

_ADAM = ("adamw", "adam")


def not_adam(job: Job) -> str | None:
    """Why an implementation of Adam on the card does not apply; None where it does."""
    if job.optimizer.name not in _ADAM:
        return f"The optimizer is {job.optimizer.name}, not Adam."
    if job.optimizer.offload in ("cpu", "nvme") or job.parallel.offload_parameters:
        return "The optimizer steps on the host already."
    return None


def no_bitsandbytes(job: Job) -> str | None:
    """Why bitsandbytes' optimizers do not apply; None where they do."""
    if job.parallel.strategy in ZERO:
        return "DeepSpeed partitions its own fp32 states."
    if job.parallel.strategy.startswith("fsdp2"):
        return "bitsandbytes' optimizers do not step the DTensors of FSDP2."
    if job.parallel.tensor > 1:
        return "bitsandbytes' optimizers do not step the DTensors of tensor parallelism."
    return None
