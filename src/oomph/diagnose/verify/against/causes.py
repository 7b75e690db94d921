"""In what a run was not what was planned, each with the bytes by which the prediction changes for it.

Nothing is attributed without a number: what differs is planned again as the run had it, one difference at a time and
then all together. What is left over is said to be unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from oomph.diagnose.verify.against.batch import Longest, longest
from oomph.diagnose.verify.against.model import Cause, Kind
from oomph.diagnose.verify.against.recorded_job import (
    RecordedJob,
    values_of,
    versions_of,
    with_batch,
    world_of,
)
from oomph.errors import OomphError
from oomph.evidence.run.data import RunData
from oomph.job.model import Framework, Job
from oomph.phases import Phase
from oomph.predict.model import Plan, RankPlan

Predict = Callable[[Job], Plan]

#: Parts of a job that a run's arguments decide, as people call them.
_PARTS = {
    "precision": "precision",
    "optimizer": "optimizer",
    "checkpointing": "activation checkpointing",
    "method": "method",
    "attention": "attention",
    "loss": "loss",
    "compile": "torch.compile",
    "activation_offload": "activation offload",
}


@dataclass(frozen=True)
class Change:
    """One difference: what it is, and how the job becomes as the run had it."""

    kind: Kind
    text: str
    apply: Callable[[Job], Job]


def changes(data: RunData, job: Job, ran: RecordedJob | None) -> Iterator[Change]:
    """Every difference between the job and what the run's own records say of it. `ran`: the job that they describe,
    None where they do not say enough."""
    found = longest(data)
    if found is not None and _other_batch(job, found):
        yield Change("batch", _batch_text(job, found), lambda its: with_batch(its, found))
    world = world_of(data)
    if world is not None and world != job.parallel.ranks:
        others = job.parallel.tensor * job.parallel.context * job.parallel.pipeline
        if world % others == 0:
            text = f"{world} ranks (planned: {job.parallel.ranks})"
            yield Change("ranks", text, lambda its: _with_ranks(its, world, world // others))
    yield from _versions(data, job)
    if ran is None:
        return
    if "hardware.gpu" in ran.said and ran.job.hardware.gpu.lower() != job.hardware.gpu.lower():
        text = f"on {ran.job.hardware.gpu} (planned: {job.hardware.gpu or 'no GPU in particular'})"
        gpu = ran.job.hardware.gpu
        yield Change("gpu", text, lambda its: replace(its, hardware=replace(its.hardware, gpu=gpu)))
    yield from _settings(job, ran)


def causes(
    data: RunData, job: Job, ran: RecordedJob | None, predict: Predict, base: RankPlan
) -> tuple[tuple[Cause, ...], RankPlan | None]:
    """The differences with their bytes, and the prediction for all of them together (None where there is none, or it
    cannot be planned)."""
    listed = list(changes(data, job, ran))
    result: list[Cause] = []
    together = job
    for change in listed:
        changed = change.apply(job)
        together = change.apply(together)
        result.append(_planned(change, changed, predict, base)[0])
    if not listed:
        return (), None
    whole = Change("together", "all of these together", lambda its: its)
    cause, rank = _planned(whole, together, predict, base)
    if len(listed) > 1:
        result.append(cause)
    return tuple(result), rank


def _planned(change: Change, job: Job, predict: Predict, base: RankPlan) -> tuple[Cause, RankPlan | None]:
    try:
        plan = predict(job)
    except OomphError as error:
        return Cause(change.kind, change.text, unsupported=str(error)), None
    if not plan.ranks:
        return Cause(change.kind, change.text, unsupported="; ".join(plan.unsupported)), None
    earlier = [each for each in plan.ranks if each.first_rank <= base.first_rank]
    rank = max(earlier, key=lambda each: each.first_rank) if earlier else plan.ranks[0]
    sizes: dict[Phase, int] = {
        phase: peak.allocated_bytes - base.phases[phase].allocated_bytes
        for phase, peak in rank.phases.items()
        if phase in base.phases
    }
    return Cause(change.kind, change.text, sizes), rank


def _other_batch(job: Job, found: Longest) -> bool:
    if found.micro != job.batch.micro:
        return True
    if found.sequence is not None:
        return job.batch.image_size is None and found.sequence != job.batch.sequence
    return found.image_size is not None and found.image_size != job.batch.image_size


def _batch_text(job: Job, found: Longest) -> str:
    at = f"step {found.step} of rank {found.rank}" if found.step >= 0 else f"rank {found.rank}"
    if found.sequence is not None:
        planned = f"{job.batch.micro} x {job.batch.sequence or '?'} tokens"
        return f"longest batch {found.micro} x {found.sequence} tokens, in {at} (planned: {planned})"
    planned = f"{job.batch.micro} images of {job.batch.image_size or '?'} pixels"
    return f"largest batch {found.micro} images of {found.image_size} pixels, in {at} (planned: {planned})"


def _with_ranks(job: Job, gpus: int, data: int) -> Job:
    parallel = replace(job.parallel, data=data)
    if data > 1 and parallel.strategy == "none":
        parallel = replace(parallel, strategy="ddp")
    return replace(job, parallel=parallel, hardware=replace(job.hardware, gpus=gpus, per_node=None))


def _versions(data: RunData, job: Job) -> Iterator[Change]:
    """Libraries that the job names in another version, or not at all where a prediction asks for them."""
    ran = dict(versions_of(values_of(data)))
    planned = dict(job.framework.versions)
    for name, version in ran.items():
        wanted = planned.get(name, "").partition("+")[0]
        same = wanted and f"{version}.".startswith(f"{wanted}.")  # 5.1 is any 5.1.x
        if same or (not wanted and name not in ("torch", job.framework.name)):
            continue
        text = f"{name} {version} (planned: {wanted or 'no version in particular'})"
        yield Change("version", text, _set_version(name, version))


def _set_version(name: str, version: str) -> Callable[[Job], Job]:
    def apply(job: Job) -> Job:
        versions = {**dict(job.framework.versions), name: version}
        return replace(job, framework=Framework(job.framework.name, tuple(sorted(versions.items()))))

    return apply


def _settings(job: Job, ran: RecordedJob) -> Iterator[Change]:
    for part, words in _PARTS.items():
        if not any(path == part or path.startswith(f"{part}.") for path in ran.said):
            continue
        had, planned = getattr(ran.job, part), getattr(job, part)
        if had != planned:
            yield Change("setting", f"{words}: {_differs(had, planned)}", _set_part(part, had))
    accumulation = ran.job.batch.accumulation
    if "batch.accumulation" in ran.said and accumulation != job.batch.accumulation:
        text = f"{accumulation} micro-batches a step (planned: {job.batch.accumulation})"
        yield Change(
            "setting", text, lambda its: replace(its, batch=replace(its.batch, accumulation=accumulation))
        )


def _set_part(part: str, value: object) -> Callable[[Job], Job]:
    return lambda job: replace(job, **{part: value})


def _differs(had: object, planned: object) -> str:
    """The fields that differ, as the run had them and as they were planned."""
    names = getattr(had, "__struct_fields__", None)
    if names is None or type(had) is not type(planned):
        return f"{had} (planned: {planned})"
    pairs = [(name, getattr(had, name), getattr(planned, name)) for name in names]
    other = [(name, a, b) for name, a, b in pairs if a != b]
    return ", ".join(f"{name} {_shown(a)} (planned: {_shown(b)})" for name, a, b in other)


def _shown(value: object) -> str:
    return "none" if value is None else str(value)[:80]
