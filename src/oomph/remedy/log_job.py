"""The job that a log shows: from what was printed, with what was given beside it, or a sentence why there is none.

Model, GPU, batch and sequence have to be said by somebody. What else nobody says is assumed as `oomph plan` assumes it,
and listed. What the log counts (parameters, those that train) has to be what the model has; else there is no job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from oomph.diagnose.case import Case
from oomph.diagnose.planned import JobField
from oomph.errors import OomphError
from oomph.evidence.model import Quote
from oomph.job.defaults import with_defaults
from oomph.job.importers import Value, merge
from oomph.job.model import Job
from oomph.remedy.log_facts import Facts, facts_of, gpu_of
from oomph.remedy.log_given import Given
from oomph.remedy.log_sources import BEHIND, LISTED, Sources, sources_of
from oomph.units import format_bytes

#: Flags of `oomph plan` in its sentences about what was assumed.
_FLAG = re.compile(r" \((?:--[a-z-]+(?: \d+)?(?:, )?)+\)")


@dataclass(frozen=True)
class Found:
    """A job with which every number is predicted, and who says which field."""

    job: Job
    fields: tuple[JobField, ...]
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def job_of(case: Case, given: Given | None = None) -> Found | str:
    """The job behind a failure, or a sentence why there is none. Raises nothing that a log can cause."""
    given = given or Given()
    if given.unsupported:
        return f"The job asks for what is not planned: {'; '.join(given.unsupported)}"
    try:
        return _of_whole(case, given.whole) if given.whole is not None else _of_parts(case, given)
    except OomphError as error:
        return f"What the log and the files say makes no job: {error}"


def _of_whole(case: Case, job: Job) -> Found | str:
    """A job that was given; the GPU is the log's where it names none."""
    if not job.model.config:
        return "The job that was given names no model."
    if job.batch.sequence is None:
        return "The job that was given has no sequence length."
    job, line = _on_gpu(case, job)
    if not _has_gpu(job):
        return _missing(["the GPU"], given=True)
    path = "hardware.gpu" if job.hardware.gpu else "hardware.capacity_bytes"
    fields = _listed(job, {path: line} if line else {}, {})
    return Found(job, tuple(fields), notes=_differences(job, facts_of(case)))


def _of_parts(case: Case, given: Given) -> Found | str:
    facts = facts_of(case)
    sources = sources_of(case, given, facts)
    problem = _contradiction(sources, facts)
    if problem:
        return problem
    job, notes = merge(*sources.imported)
    unsupported = [sentence for each in sources.imported for sentence in each.unsupported]
    if unsupported:
        return f"The job has what is not planned: {'; '.join(dict.fromkeys(unsupported))}."
    job, line = _on_gpu(case, job)
    if line is not None:
        sources.quotes["hardware.gpu" if job.hardware.gpu else "hardware.capacity_bytes"] = line
    missing = _absent(job, sources)
    if missing:
        return _missing(missing, given=bool(given.names))
    problem = _open_questions(case, job, sources)
    if problem:
        return problem
    said = {path for each in sources.imported for path in each.values}
    if said & {"given.mixed", "given.weights", "precision.weights"} or _has_trainer(sources):
        said |= {"precision"}
    job, assumptions = with_defaults(job, said | {"batch.micro", "batch.sequence"})
    # Counting what trains needs the plan: it is loaded for a job that is complete.
    from oomph.remedy.parameters import with_counts

    counted = with_counts(case, job)
    if isinstance(counted, str):
        return counted
    told = {path: value for path in LISTED if (value := sources.said(path)) is not None}
    for path, behind in BEHIND.items():
        value = sources.said(behind)
        if path not in told and value is not None:
            told[path] = value
            if behind in sources.quotes:
                sources.quotes.setdefault(path, sources.quotes[behind])
    plain = tuple(_FLAG.sub("", sentence) for sentence in assumptions)
    if counted.method != job.method:
        plain = tuple(sentence for sentence in plain if not sentence.startswith("Adapters on "))
        plain += ("The adapters are those that have as many parameters as the log says that train.",)
    if given.names:
        notes = (*_differences(counted, facts), *notes)
    return Found(counted, tuple(_listed(counted, sources.quotes, told)), plain, notes)


def _differences(job: Job, facts: Facts) -> tuple[str, ...]:
    """What the log says of a job that was given, where that is something else."""
    mine = {
        "batch.micro": job.batch.micro,
        "batch.sequence": job.batch.sequence,
        "hardware.gpus": job.hardware.gpus,
    }
    return tuple(
        f"The log says {value.quote}, and the job that was given has {mine[path]}: planned is the latter."
        for path, value in facts.values.items()
        if path in mine and value.value != mine[path]
    )


def _has_trainer(sources: Sources) -> bool:
    """Whether a trainer's own configuration is known: it decides the precision by what it has and by what it has
    not."""
    return any(each.kind not in ("log", "config.json", "Accelerate", "PEFT") for each in sources.imported)


def _contradiction(sources: Sources, facts: Facts) -> str:
    """Why what is said cannot be one job: several values of a setting that decides."""
    for path, problem in facts.problems:
        if not _is_settled(path, problem, sources):
            return f"No job can be made of the log: {problem}."
    micro, printed = facts.values.get("batch.micro"), sources.said("batch.micro")
    if micro is not None and printed is not None and micro.value != printed.value and not sources.given_batch:
        return f"No job can be made of the log: {printed.quote}, and later {micro.quote}."
    if "given.bits" in facts.values and sources.said("method.quantization.kind") is None:
        said = facts.values["given.bits"].quote
        return f"No job can be made of the log: how the weights are quantised is not printed ({said})."
    return ""


def _is_settled(path: str, problem: str, sources: Sources) -> bool:
    """Whether somebody with more to say than single lines closes what those leave open."""
    if path == "batch.micro":
        return sources.given_batch
    others = [each for each in sources.imported if each.kind != "log"]
    if path == "framework.name":
        # Others' code on top of a trainer (unsloth) is not what the trainer's own configuration describes.
        return problem.startswith("megatron") and any(each.kind == "Megatron-LM" for each in others)
    return any(path in each.values for each in others)


def _on_gpu(case: Case, job: Job) -> tuple[Job, Quote | None]:
    """The job on the GPU that the log names; on one of the size that the failure prints where it names none."""
    if _has_gpu(job):
        return job, None
    name, line = gpu_of(case)
    if name:
        return replace(job, hardware=replace(job.hardware, gpu=name)), line
    ledger = case.ledger
    if ledger.capacity_bytes is None or case.failure.vendor not in ("cuda", "nvidia", ""):
        return job, None
    room = ledger.capacity_bytes - (ledger.not_torch_bytes or 0)
    job = replace(job, hardware=replace(job.hardware, capacity_bytes=max(1, room)))
    return job, case.failure.quote


def _has_gpu(job: Job) -> bool:
    return bool(job.hardware.gpu or job.hardware.machine or job.hardware.capacity_bytes)


def _absent(job: Job, sources: Sources) -> list[str]:
    """What nobody says of model, GPU, batch and sequence."""
    missing = []
    if not job.model.config:
        missing.append("the model")
    if not _has_gpu(job):
        missing.append("the GPU")
    by_total = all(
        sources.said(path) is not None
        for path in ("given.global_batch", "batch.accumulation", "hardware.gpus")
    )
    if sources.said("batch.micro") is None and not by_total:
        missing.append("the batch size")
    if sources.said("batch.sequence") is None:
        missing.append("the length of the sequences")
    return missing


def _missing(what: Sequence[str], *, given: bool) -> str:
    listed = what[0] if len(what) == 1 else f"{', '.join(what[:-1])} and {what[-1]}"
    who = "Neither the log nor --job says" if given else "The log does not say"
    return f"{who} {listed}; --job FILE gives it."


def _open_questions(case: Case, job: Job, sources: Sources) -> str:
    """What has to be known of a job of several ranks, and files that it names and that are not there."""
    kinds = {each.kind.lower() for each in sources.imported}
    for path, value in ((path, value) for each in sources.imported for path, value in each.values.items()):
        needed = path.removeprefix("given.needs.").lower()
        if path.startswith("given.needs.") and needed != "trainer" and needed not in kinds:
            return f"The job uses a file that the log does not show ({value.quote}); --job FILE gives it."
    ranks = [case.rank, *(incident.rank for incident in case.evidence.failures)]
    several = any(rank is not None and rank > 0 for rank in ranks) or job.hardware.gpus > 1
    strategy = job.parallel.strategy
    counted = any(
        sources.said(path) is not None for path in ("hardware.gpus", "given.gpus_per_node", "parallel.data")
    )
    if (several or strategy != "none") and not counted:
        return "The log does not say how many GPUs the job runs on; --job FILE gives it."
    known = sources.said("parallel.strategy") is not None or any(
        "given.many" in each.values for each in sources.imported
    )
    if several and not known:
        return "The log does not say how the GPUs share the work (DDP, FSDP, ZeRO); --job FILE gives it."
    return ""


def _listed(job: Job, quotes: dict[str, Quote], told: dict[str, Value]) -> list[JobField]:
    """The fields that decide, each with who says it."""
    fields = []
    for path in LISTED:
        value: object = job
        for part in path.split("."):
            value = getattr(value, part, None)
        if value in (None, "", (), False) or (path.startswith("parallel.") and value in ("none", 1)):
            continue
        if path == "hardware.capacity_bytes" and job.hardware.gpu:
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        if path.endswith("_bytes") and isinstance(value, int):
            shown = format_bytes(value)
        says = told[path].quote if path in told else ""
        fields.append(JobField(path, shown, says, quotes.get(path)))
    return fields
