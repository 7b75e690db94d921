"""Changes that can make a job fit: one file per kind of change, and here which there are for a job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from oomph.job.model import Job
from oomph.remedy.changes import (
    attention,
    checkpointing,
    chunked_loss,
    context_parallel,
    effective_batch,
    eight_bit_optimizer,
    eval_accumulation,
    eval_batch,
    expandable_segments,
    fused_optimizer,
    generate_shorter,
    lora,
    lower_dtype,
    meta_load,
    micro_batch,
    offload_activations,
    offload_optimizer,
    offload_parameters,
    optimizer_in_backward,
    other_gpu,
    paged_optimizer,
    qlora,
    sharding,
    shorter_sequence,
    sync_each_batch,
    tensor_parallel,
)
from oomph.remedy.changes.base import ALLOWANCES, Change

__all__ = ["ALLOWANCES", "Change", "all_changes", "axes", "by_code"]

#: In the order in which they are applied and listed: first what decides where everything is (what is trained, in which
#: precision, spread over what), then what a step holds, and of each first what changes least.
_SOURCES: tuple[Callable[[Job], tuple[Change, ...]], ...] = (
    lora.options,
    qlora.options,
    lower_dtype.options,
    sharding.options,
    meta_load.options,
    tensor_parallel.options,
    context_parallel.options,
    offload_optimizer.options,
    offload_parameters.options,
    attention.options,
    chunked_loss.options,
    micro_batch.options,
    effective_batch.options,
    sync_each_batch.options,
    fused_optimizer.options,
    optimizer_in_backward.options,
    paged_optimizer.options,
    eight_bit_optimizer.options,
    paged_optimizer.options_in_bytes,
    checkpointing.options,
    offload_activations.options,
    eval_accumulation.options,
    eval_batch.options,
    generate_shorter.options,
    shorter_sequence.options,
    expandable_segments.options,
    other_gpu.options,
)


def all_changes(job: Job) -> tuple[Change, ...]:
    """Every change that there is for a job of this kind, whether it applies or not."""
    return tuple(change for source in _SOURCES for change in source(job))


def axes(job: Job, allow: Collection[str] = ()) -> Mapping[str, tuple[Change, ...]]:
    """The changes that are allowed, by axis, in the order of `all_changes`. Some apply only after another change (an
    optimizer in backward after accumulation is gone), so whether they apply is asked for each combination."""
    found: dict[str, list[Change]] = {}
    for change in all_changes(job):
        if not change.needs or change.needs in allow:
            found.setdefault(change.axis, []).append(change)
    return {axis: tuple(changes) for axis, changes in found.items()}


def by_code(job: Job, code: str) -> Change | None:
    """The mildest change with this code that applies; None where there is none."""
    for change in all_changes(job):
        if change.code == code and change.applies(job) is None:
            return change
    return None
