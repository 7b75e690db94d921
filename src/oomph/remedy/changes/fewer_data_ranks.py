"""What splitting a layer or a sequence has in common: data ranks become ranks of one copy."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.job.model import Job

#: Whose flag is enough; elsewhere model and data have to be prepared, which no line does.
FLAGS = ("torchtitan", "axolotl", "megatron", "torchtune")
#: With a full shard over the data ranks (FSDP), or none.
_WITH = ("none", "ddp", "fsdp2_full", "fsdp2_no_reshard", "fsdp2_hybrid_shard")


def accumulated(job: Job, size: int) -> Job:
    """Fewer data ranks: as many more micro-batches, so that a step sees the same samples."""
    parallel = replace(job.parallel, data=job.parallel.data // size)
    batch = replace(job.batch, accumulation=job.batch.accumulation * size)
    return replace(job, parallel=parallel, batch=batch)


def samples(job: Job) -> dict[str, int]:
    """The samples of a step, and the forwards of it."""
    batch = job.batch
    return {"steps": batch.accumulation, "all": batch.micro * batch.accumulation * job.parallel.data}


def no_room(job: Job, size: int) -> str | None:
    """Why `size` ranks cannot split what each holds; None where they can."""
    if job.parallel.data % size:
        return f"{job.parallel.data} data ranks cannot be divided into groups of {size}."
    if job.parallel.strategy not in _WITH:
        return f"It goes with FSDP2 or without sharding, not with {job.parallel.strategy}."
    if job.method.quantization is not None:
        return "Quantised weights are not split."
    if job.optimizer.impl in ("bnb", "bnb_paged", "torchao", "in_backward"):
        return f"The optimizer ({job.optimizer.impl}) does not step DTensors."
    return None
