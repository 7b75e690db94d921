"""The job that a log shows: from what was printed, with what was given beside it, or a sentence why there is none.

Model, GPU, batch and sequence have to be said by somebody. What else nobody says is assumed as `oomph plan` assumes it,
and listed. What the log counts (parameters, those that train) has to be what the model has; else there is no job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from pathlib import Path

from msgspec.structs import replace

from oomph.diagnose.case import Case
from oomph.diagnose.planned import JobField
from oomph.errors import OomphError, UsageError
from oomph.evidence.model import Quote
from oomph.job.defaults import with_defaults
from oomph.job.importers import Imported, Value, merge, read
from oomph.job.inputs import WHOLE, read_inputs
from oomph.job.model import Job
from oomph.job.names import model as model_named
from oomph.remedy.log_facts import Facts, facts_of, gpu_of
from oomph.remedy.log_text import configurations, line_of
from oomph.remedy.parameters import with_counts

#: Fields that are listed, in this order; the rest of a job is settings of the allocator and of buckets.
_LISTED = (
    *("model.name", "hardware.gpu", "hardware.gpus", "hardware.capacity_bytes", "batch.micro", "batch.sequence"),
    *("batch.accumulation", "method.name", "method.lora.rank", "method.lora.targets", "parallel.strategy"),
    *("parallel.data", "parallel.tensor", "precision.weights", "precision.compute", "optimizer.name"),
    *("optimizer.impl", "checkpointing.mode", "attention", "loss", "compile", "framework.name"),
)
#: Documents of a job that are looked through for configurations, the failure's first.
_DOCUMENTS = 3


@dataclass(frozen=True)
class Given:
    """What the user says of the job: a whole job, or files that say parts of it."""

    imported: tuple[Imported, ...] = ()
    whole: Job | None = None
    names: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A job with which every number is predicted, and who says which field."""

    job: Job
    fields: tuple[JobField, ...]
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Sources:
    """All that speaks of the job, by who has the last word, and lines of the log for paths."""

    imported: tuple[Imported, ...]
    facts: Facts
    quotes: dict[str, Quote] = field(default_factory=dict)

    def said(self, path: str) -> Value | None:
        """What somebody wrote (no default) under a path; the first of `imported` counts."""
        for each in self.imported:
            value = each.values.get(path)
            if value is not None and not value.default:
                return value
        return None


def read_given(inputs: Sequence[str]) -> Given:
    """The files, folders and names of `--job`. Raises UsageError and InputError as `oomph plan` does."""
    whole = read_inputs(list(inputs))
    names = tuple(inputs)
    if whole.said == WHOLE:
        return Given(whole=whole.job, names=names, unsupported=whole.unsupported)
    imported = []
    for name in inputs:
        path = Path(name).expanduser()
        file = path / "config.json" if path.is_dir() else path
        if file.is_file():
            imported.append(read(file))
        else:
            known = model_named(name)
            imported.append(Imported("config.json", name, {"model.name": Value(name, name)}, model=known))
    return Given(tuple(imported), names=names, unsupported=whole.unsupported)


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
    return Found(job, tuple(_listed(job, {"hardware.gpu": line} if line else {}, {})))


def _of_parts(case: Case, given: Given) -> Found | str:
    facts = facts_of(case)
    sources = _sources(case, given, facts)
    problem = _contradiction(sources, facts)
    if problem:
        return problem
    job, notes = merge(*reversed(sources.imported))
    unsupported = [sentence for each in sources.imported for sentence in each.unsupported]
    if unsupported:
        return f"The job has what is not planned: {'; '.join(dict.fromkeys(unsupported))}."
    job, line = _on_gpu(case, job)
    if line is not None:
        sources.quotes["hardware.gpu"] = line
    missing = _absent(job, sources)
    if missing:
        return _missing(missing, given=bool(given.names))
    problem = _open_questions(case, job, sources)
    if problem:
        return problem
    said = {path for each in sources.imported for path, value in each.values.items()}
    if said & {"given.mixed", "given.weights", "precision.weights"} or len(sources.imported) > 1:
        said |= {"precision"}
    job, assumptions = with_defaults(job, said | {"batch.micro", "batch.sequence"})
    counted = with_counts(case, job)
    if isinstance(counted, str):
        return counted
    told = {path: value for path in _LISTED if (value := sources.said(path)) is not None}
    return Found(counted, tuple(_listed(counted, sources.quotes, told)), assumptions, notes)


def _sources(case: Case, given: Given, facts: Facts) -> _Sources:
    """Given files first, then configurations in the log, then single lines; each without what an earlier one says."""
    start = case.group.start
    documents = [case.evidence.documents[start.document]]
    documents += [each for each in case.evidence.documents if each.index != start.document]
    printed: tuple[Imported, ...] = ()
    found: dict[str, Quote] = {}
    for document in documents[:_DOCUMENTS]:
        until = start.line if document.index == start.document else len(document.lines)
        printed = configurations(document, until)
        for each in printed:
            for path, value in each.values.items():
                line = None if value.default else line_of(document, until, value.quote)
                if line is not None:
                    found.setdefault(path, line)
        if printed:
            break
    told: set[str] = {path for each in given.imported for path, value in each.values.items() if not value.default}
    has_model = any(each.model is not None for each in given.imported)
    kept = list(given.imported)
    for each in (*printed, facts.imported(), _model_of(facts)):
        values = {path: value for path, value in each.values.items() if path not in told}
        model = None if has_model else each.model
        kept.append(with_fields(each, values=values, model=model))
        has_model = has_model or model is not None or "model.name" in values
        told |= {path for path, value in values.items() if not value.default}
    quotes = {**facts.lines, **found}
    for path in {path for each in given.imported for path, value in each.values.items() if not value.default}:
        quotes.pop(path, None)
    return _Sources(tuple(kept), facts, quotes)


def _model_of(facts: Facts) -> Imported:
    """The model that lines of the log name, where all that are known here are one."""
    known = {}
    for fact in facts.models:
        name = _plain_name(fact.value)
        try:
            known.setdefault(model_named(name).config, (name, fact))
        except OomphError:
            continue
    if len(known) > 1:
        names = ", ".join(name for name, _ in known.values())
        facts.problems.append(f"the log names several models ({names})")
    if len(known) != 1:
        return Imported("log", "the log", {})
    name, fact = next(iter(known.values()))
    facts.lines["model.name"] = fact.quote
    return Imported("log", "the log", {"model.name": Value(name, f"model = {fact.value}")})


def _plain_name(value: str) -> str:
    """A model's name; of a path in the hub's cache the name on the hub, of another path its last part. No file of this
    machine is looked at because a log names it."""
    for part in reversed(value.replace("\\", "/").split("/")):
        if part.startswith("models--"):
            return "/".join(part.removeprefix("models--").split("--"))
    is_path = value.startswith(("/", ".", "~")) or value.count("/") > 1 or ":" in value or "\\" in value
    return value.replace("\\", "/").rstrip("/").rpartition("/")[2].strip(".") if is_path else value


def _contradiction(sources: _Sources, facts: Facts) -> str:
    """Why what is said cannot be one job: several values of a setting that decides."""
    for problem in facts.problems:
        path = (
            "batch.micro"
            if "batch size" in problem
            else "batch.sequence"
            if "lengths" in problem
            else "batch.accumulation"
            if "accumulation" in problem
            else "hardware.gpus"
            if "world size" in problem
            else "optimizer.name"
            if "optimizer" in problem
            else "model.name"
            if "models" in problem
            else ""
        )
        settled = path and sources.said(path) is not None and path not in ("batch.micro",)
        whose_code = "code of its own" in problem and sources.said("framework.name") is not None
        if not settled and not whose_code:
            return f"No job can be made of the log: {problem}."
    if "given.bits" in facts.values and sources.said("method.quantization.kind") is None:
        said = facts.values["given.bits"].quote
        return f"No job can be made of the log: how the weights are quantised is not printed ({said})."
    return ""


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


def _absent(job: Job, sources: _Sources) -> list[str]:
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


def _open_questions(case: Case, job: Job, sources: _Sources) -> str:
    """What has to be known of a job of several ranks."""
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
    for path in _LISTED:
        value: object = job
        for part in path.split("."):
            value = getattr(value, part, None)
        if value in (None, "", (), False) or (path.startswith("parallel.") and value in ("none", 1)):
            continue
        if path == "hardware.capacity_bytes" and job.hardware.gpu:
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        says = told[path].quote if path in told else ""
        fields.append(JobField(path, shown, says, quotes.get(path)))
    return fields
