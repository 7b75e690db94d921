"""The job that a log shows: from what was printed, with what was given beside it, or a sentence why there is none.

Model, GPU, batch and sequence have to be said by somebody. What else nobody says is assumed as `oomph plan` assumes it,
and listed. What the log counts (parameters, those that train) has to be what the model has; else there is no job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from pathlib import Path

from msgspec.structs import replace

from oomph.diagnose.case import Case
from oomph.diagnose.planned import JobField
from oomph.errors import OomphError
from oomph.evidence.model import Document, Fact, Quote
from oomph.job.defaults import with_defaults
from oomph.job.importers import Imported, Value, merge, read
from oomph.job.inputs import WHOLE, read_inputs
from oomph.job.model import Dimension, Job
from oomph.job.names import model as model_named
from oomph.remedy.log_facts import Facts, facts_of, gpu_of
from oomph.remedy.log_text import configurations, line_of
from oomph.units import format_bytes

#: Fields that are listed, in this order; the rest of a job is settings of the allocator and of buckets.
_LISTED = (
    *(
        "model.name",
        "hardware.gpu",
        "hardware.gpus",
        "hardware.capacity_bytes",
        "batch.micro",
        "batch.sequence",
    ),
    *("batch.accumulation", "method.name", "method.lora.rank", "method.lora.targets", "parallel.strategy"),
    *("parallel.data", "parallel.tensor", "precision.weights", "precision.compute", "optimizer.name"),
    *("optimizer.impl", "checkpointing.mode", "attention", "loss", "compile", "framework.name"),
)
#: What several files together decide, and whose word is behind it.
_BEHIND = {
    "precision.compute": "given.mixed",
    "precision.weights": "given.weights",
    "method.name": "given.lora",
    "parallel.data": "hardware.gpus",
}
#: Flags of `oomph plan` in its sentences about what was assumed.
_FLAG = re.compile(r" \((?:--[a-z-]+(?: \d+)?(?:, )?)+\)")
#: Where a model's configuration is printed.
_CONFIG = re.compile(r"[A-Za-z0-9]Config ?[{(]")
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
    given_batch: bool = False

    def said(self, path: str) -> Value | None:
        """What somebody wrote (no default) under a path; the first of `imported` counts."""
        for each in self.imported:
            value = each.values.get(path)
            if value is not None and not value.default:
                return value
        return None


def given_as(job: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Job) -> Given:
    """What the caller of `explain` says of the job. Errors as `read_given`."""
    if isinstance(job, Job):
        return Given(whole=job, names=("the job",))
    several = [job] if isinstance(job, (str, os.PathLike)) else list(job)
    return read_given([os.fspath(each) for each in several])


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
    path = "hardware.gpu" if job.hardware.gpu else "hardware.capacity_bytes"
    return Found(job, tuple(_listed(job, {path: line} if line else {}, {})))


def _of_parts(case: Case, given: Given) -> Found | str:
    facts = facts_of(case)
    sources = _sources(case, given, facts)
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
    told = {path: value for path in _LISTED if (value := sources.said(path)) is not None}
    for path, behind in _BEHIND.items():
        value = sources.said(behind)
        if path not in told and value is not None:
            told[path] = value
            if behind in sources.quotes:
                sources.quotes.setdefault(path, sources.quotes[behind])
    plain = tuple(_FLAG.sub("", sentence) for sentence in assumptions)
    if counted.method != job.method:
        plain = tuple(sentence for sentence in plain if not sentence.startswith("Adapters on "))
        plain += ("The adapters are those that have as many parameters as the log says that train.",)
    return Found(counted, tuple(_listed(counted, sources.quotes, told)), plain, notes)


def _has_trainer(sources: _Sources) -> bool:
    """Whether a trainer's own configuration is known: it decides the precision by what it has and by what it has
    not."""
    return any(each.kind not in ("log", "config.json", "Accelerate", "PEFT") for each in sources.imported)


def _sources(case: Case, given: Given, facts: Facts) -> _Sources:
    """Given files first, then configurations in the log, then single lines; each without what an earlier one says."""
    document, until, printed = _printed(case)
    told = {path for each in given.imported for path, value in each.values.items() if not value.default}
    problem = _several_values(printed, told)
    if problem:
        facts.problems.append(("", problem))
    has_model = any(each.model is not None for each in given.imported) or "model.name" in told
    sources = _Sources(tuple(given.imported), facts, given_batch="batch.micro" in told)
    for each in (*printed, facts.imported(), _model_of(facts)):
        values = {path: value for path, value in each.values.items() if path not in told}
        if "model.name" in values:
            name = values["model.name"]
            values["model.name"] = with_fields(name, value=_plain_name(str(name.value)))
        model = None if has_model else each.model
        sources.imported += (with_fields(each, values=values, model=model),)
        has_model = has_model or model is not None or "model.name" in values
        if model is not None:
            line = next(
                (document.quote(i) for i in range(until) if _CONFIG.search(document.lines[i].text)), None
            )
            sources.quotes |= {"model.name": line} if line is not None else {}
        for path, value in values.items():
            if value.default:
                continue
            told.add(path)
            line = facts.lines.get(path) if each.kind == "log" else line_of(document, until, value.quote)
            if line is not None:
                sources.quotes[path] = line
    return sources


def _printed(case: Case) -> tuple[Document, int, tuple[Imported, ...]]:
    """The configurations in the failure's document, or the first other one that has any, and where its text ends."""
    start = case.group.start
    own = case.evidence.documents[start.document]
    others = [each for each in case.evidence.documents if each.index != start.document]
    for document in [own, *others][:_DOCUMENTS]:
        until = start.line if document is own else len(document.lines)
        printed = configurations(document, until)
        if printed:
            return document, until, printed
    return own, start.line, ()


def _several_values(printed: Sequence[Imported], told: Collection[str]) -> str:
    """A sentence without its full stop where configurations in the log contradict each other in what decides."""
    for path in ("batch.micro", "batch.sequence", "model.name"):
        values = [each.values[path] for each in printed if path in each.values and path not in told]
        written = [value for value in values if not value.default]
        if len({str(value.value) for value in written}) > 1:
            return f"it says {' and '.join(value.quote for value in written)}"
    return ""


def _model_of(facts: Facts) -> Imported:
    """The model that lines of the log name, where all that are known here are one."""
    known: dict[tuple[Dimension, ...], tuple[str, Fact]] = {}
    for fact in facts.models:
        name = _plain_name(fact.value)
        try:
            known.setdefault(model_named(name).config, (name, fact))
        except OomphError:
            continue
    if len(known) > 1:
        names = ", ".join(name for name, _ in known.values())
        facts.problems.append(("model.name", f"the log names several models ({names})"))
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
    others = [each for each in sources.imported if each.kind != "log"]
    for path, problem in facts.problems:
        settled = (
            sources.given_batch if path == "batch.micro" else any(path in each.values for each in others)
        )
        if not settled:
            return f"No job can be made of the log: {problem}."
    micro, printed = facts.values.get("batch.micro"), sources.said("batch.micro")
    if micro is not None and printed is not None and micro.value != printed.value and not sources.given_batch:
        return f"No job can be made of the log: {printed.quote}, and later {micro.quote}."
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
    for path in _LISTED:
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
