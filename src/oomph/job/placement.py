"""A job put on GPUs: which, how many, and how many ranks do what."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.hardware.names import Asked
from oomph.job.model import Job

_DEGREES = ("parallel.tensor", "parallel.context", "parallel.pipeline")


def with_hardware(
    job: Job, found: Asked | None, count: int | None = None, per_node: int | None = None
) -> Job:
    """The job on the GPU that was found, with what its machine has; `count` GPUs in all, where that is said apart. What
    was known of another card or machine is forgotten."""
    hardware = job.hardware
    if found is not None:
        if hardware.gpu not in ("", found.gpu.short_name):
            hardware = replace(hardware, free_bytes=None, capacity_bytes=None)
        if hardware.machine:
            hardware = replace(hardware, machine="", per_node=None, host_bytes=None)
        hardware = replace(hardware, gpu=found.gpu.short_name, gpus=found.count or hardware.gpus)
        if found.machine is not None:
            its = found.machine
            hardware = replace(hardware, machine=its.name, per_node=its.count, host_bytes=its.host_bytes)
    if count is not None:
        hardware = replace(hardware, gpus=count)
    if per_node is not None:
        hardware = replace(hardware, per_node=per_node)
    return replace(job, hardware=hardware)


def with_ranks(job: Job, said: Collection[str]) -> Job:
    """The number of ranks and that of GPUs brought together. `said` are the paths that were given: with a number of
    GPUs the data ranks are what the other degrees leave of them; without one, the GPUs are as many as the ranks.

    Raises UsageError where they do not divide, and where a way to share weights has nobody to share them with.
    """
    parallel, gpus = job.parallel, job.hardware.gpus
    if "hardware.gpus" not in said:
        if "parallel.strategy" in said and parallel.strategy != "none" and max(parallel.ranks, gpus) == 1:
            raise UsageError(
                f"{parallel.strategy.partition('_')[0].upper()} shares the work of several GPUs: say how many "
                "(--gpus 8, --gpu h100x8, or a machine)"
            )
        several = any(path in said for path in (*_DEGREES, "parallel.data"))
        gpus = parallel.ranks if several else max(gpus, parallel.ranks)
        job = replace(job, hardware=replace(job.hardware, gpus=gpus))
    if "parallel.data" in said:
        return job
    others = parallel.tensor * parallel.context * parallel.pipeline
    if others > gpus or gpus % max(1, others):
        raise UsageError(
            f"{gpus} GPUs are not divided by the {others} ranks of tensor x context x pipeline parallelism "
            f"({parallel.tensor} x {parallel.context} x {parallel.pipeline})"
        )
    return replace(job, parallel=replace(parallel, data=gpus // max(1, others)))
