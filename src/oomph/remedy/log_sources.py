"""Who speaks of the job: given files, configurations in the log, single lines; and who has the last word on what."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from pathlib import Path

from oomph.diagnose.case import Case
from oomph.errors import OomphError
from oomph.evidence.model import Document, Fact, Quote
from oomph.job.importers import Imported, Value
from oomph.job.model import Dimension
from oomph.job.names import model as model_named
from oomph.remedy.log_facts import Facts
from oomph.remedy.log_given import Given
from oomph.remedy.log_text import configurations, lines_of

#: Fields that are listed, in this order; the rest of a job is settings of the allocator and of buckets.
LISTED = (
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
BEHIND = {
    "precision.compute": "given.mixed",
    "precision.weights": "given.weights",
    "method.name": "given.lora",
    "parallel.data": "hardware.gpus",
}
SHOWN = frozenset((*LISTED, *BEHIND.values()))
#: Where a model's configuration is printed.
_CONFIG = re.compile(r"[A-Za-z0-9]Config ?[{(]")
#: Documents of a job that are looked through for configurations, the failure's first.
_DOCUMENTS = 3


@dataclass
class Sources:
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


def sources_of(case: Case, given: Given, facts: Facts) -> Sources:
    """Given files first, then configurations in the log, then single lines; each without what an earlier one says."""
    document, until, printed = _printed(case)
    told = {path for each in given.imported for path, value in each.values.items() if not value.default}
    problem = _several_values(printed, told)
    if problem:
        facts.problems.append(("", problem))
    has_model = any(each.model is not None for each in given.imported) or "model.name" in told
    sources = Sources(tuple(given.imported), facts, given_batch="batch.micro" in told)
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
        written = {path: value.quote for path, value in values.items() if not value.default}
        told |= set(written)
        if each.kind == "log":
            sources.quotes |= {path: facts.lines[path] for path in written if path in facts.lines}
        else:
            shown = {path: said for path, said in written.items() if path in SHOWN}
            sources.quotes |= lines_of(document, until, shown)
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
    """A model's name; of a path in the hub's cache the name on the hub, of another path its last part. "" where that is
    a file or folder here: none is read because a log names it."""
    parts = [part for part in value.replace("\\", "/").split("/") if part]
    if parts and parts[-1].lower().endswith(".json"):
        parts.pop()
    for part in reversed(parts):
        if part.startswith("models--"):
            return "/".join(part.removeprefix("models--").split("--"))
    is_path = value.startswith(("/", ".", "~")) or len(parts) > 2 or ":" in value or "\\" in value
    name = (parts[-1].strip(".~") if parts else "") if is_path else "/".join(parts)
    try:
        return "" if Path(name).exists() else name
    except (OSError, ValueError):
        return ""
