"""The part of a diagnosis that reports show: cleaned, redacted if asked for, and filtered by rank.

Every renderer starts here, so that no string of a log reaches any output by another road.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, cast

from oomph.diagnose.model import Diagnosis, Finding, Incident, PhaseVerdict, Step
from oomph.diagnose.planned import Agreement, JobField
from oomph.diagnose.streams import last_step
from oomph.evidence.model import Document, Evidence, Fact, Failure, Frame, Quote
from oomph.memory.ledger import Problem
from oomph.report.clean import MAX_CHARACTERS, clean, cut
from oomph.report.options import ReportOptions

if TYPE_CHECKING:
    from oomph.report.redact import Redactor

T = TypeVar("T")

#: Characters of one text that redaction looks at; what follows them is not shown.
_MOST_REDACTED = 8 * MAX_CHARACTERS
#: Characters at the end of what redaction looked at that are not shown.
_MARGIN = 500

#: Fields that hold oomph's own keys: nothing private can be in them, and redaction could only damage them.
_OWN_KEYS = {
    Failure: frozenset(("format", "vendor", "artefacts")),
    Finding: frozenset(("code", "actions")),
    Fact: frozenset(("name",)),
    Incident: frozenset(("status",)),
    PhaseVerdict: frozenset(("evidence",)),
    Problem: frozenset(("code",)),
    Step: frozenset(("code",)),
    Agreement: frozenset(("verdict",)),
    JobField: frozenset(("path",)),
}


@dataclass(frozen=True)
class Source:
    """One input as the report names it. `lines` is the number of its last line that was read; with `partial` there
    may be more, because only the interesting places of a large file were kept. `damage` says why it could
    not be read to its end ("its end is missing"), "" where it was. Of a memory snapshot (`is_snapshot`), `lines` counts
    the events."""

    name: str
    lines: int
    size_bytes: int
    rank: int | None = None
    attempt: int | None = None
    partial: bool = False
    damage: str = ""
    notes: tuple[str, ...] = ()
    is_snapshot: bool = False


@dataclass(frozen=True)
class View:
    """What a renderer works on.

    `diagnosis` has cleaned strings and no documents, tracebacks or samples. `incident` is the one that is shown: of
    the rank asked for, or the explained one when none was asked for or that rank has no failure. `incidents` are
    those to list. `last_step` is the last training step that the job printed before the failure, and
    `sizes_rounded_up` says that the allocator was told to round requests.
    """

    diagnosis: Diagnosis
    incident: Incident | None
    incidents: tuple[Incident, ...]
    sources: tuple[Source, ...]
    last_step: str | None = None
    sizes_rounded_up: bool = False

    @property
    def is_explained(self) -> bool:
        """Whether the incident that is shown is the one that the findings are about."""
        return self.incident is None or self.incident == self.diagnosis.incident

    @property
    def phase(self) -> PhaseVerdict | None:
        """The phase of the incident that is shown, or of what ended the job where nothing failed for memory."""
        return self.diagnosis.phase if self.incident is None else self.incident.phase

    @property
    def lines(self) -> int:
        return sum(source.lines for source in self.sources if not source.is_snapshot)


def prepare(diagnosis: Diagnosis, options: ReportOptions) -> View:
    """The view of `diagnosis` that every renderer of this package shows."""
    sources = tuple(_source(document) for document in diagnosis.evidence.documents)
    reduced = _reduced(diagnosis)
    text = ShownText(new_redactor(options), _use)
    if text.redactor is not None:
        text.redactor.learn_inputs(clean(name) for name in input_names(diagnosis))
        for string in dict.fromkeys(strings((reduced, sources))):
            text.redactor.learn(head(clean(string)))
    shown = text.apply(reduced)
    incidents = shown.incidents
    incident = shown.incident
    if options.rank is not None:
        # A message without a rank of its own may be known to be of this rank by other means (ranks.first).
        is_of_rank = incident is not None and shown.ranks.first == options.rank and incident.rank is None
        incidents = tuple(
            one for one in incidents if one.rank == options.rank or (is_of_rank and one == incident)
        )
        if not is_of_rank and (incident is None or incident.rank != options.rank):
            incident = _most_serious(incidents) or incident
    return View(
        diagnosis=shown,
        incident=incident,
        incidents=incidents,
        sources=text.apply(sources),
        last_step=(
            None
            if incident is None
            else last_step(diagnosis.evidence, incident.failure.position, incident.rank, incident.status)
        ),
        sizes_rounded_up=any(
            "roundup_power2" in fact.value for fact in diagnosis.evidence.facts_named("alloc_conf")
        ),
    )


def input_names(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The names of all files of the input, those that were passed over included."""
    documents = diagnosis.evidence.documents
    return (
        *(document.source for document in documents),
        *(name for document in documents for name in document.passed_over),
    )


def _reduced(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without what no report shows: the lines of the documents, the tracebacks, the samples."""

    def lean(incident: Incident) -> Incident:
        return dataclasses.replace(incident, traceback=None)

    return dataclasses.replace(
        diagnosis,
        evidence=Evidence(documents=(), notes=diagnosis.evidence.notes),
        incident=None if diagnosis.incident is None else lean(diagnosis.incident),
        incidents=tuple(lean(incident) for incident in diagnosis.incidents),
    )


def _most_serious(incidents: tuple[Incident, ...]) -> Incident | None:
    for status in ("fatal", "consequence"):
        for incident in incidents:
            if incident.status == status:
                return incident
    return incidents[-1] if incidents else None


def _source(document: Document) -> Source:
    lines = document.lines[-1].number if document.lines else 0
    return Source(
        name=document.source,
        lines=lines if document.events is None else document.events,
        size_bytes=document.size_bytes,
        rank=document.rank,
        attempt=document.attempt,
        partial=bool(document.gaps),
        damage=document.damage,
        notes=document.notes,
        is_snapshot=document.events is not None,
    )


def new_redactor(options: ReportOptions) -> Redactor | None:
    """A redactor, where the options ask for one: its patterns take longer to compile than most reports to render."""
    if not options.redact:
        return None
    from oomph.report.redact import Redactor

    return Redactor()


class ShownText:
    """Applies cleaning (and redaction) to every string of a value, however deep it lies.

    `use(owner, field)` says how the text of a dataclass's field is treated: "path" (a file's name as a whole), "own"
    (oomph's key: cleaned, never redacted) or "text".
    """

    def __init__(self, redactor: Redactor | None, use: Callable[[object, str], str]) -> None:
        self.redactor = redactor
        self._use = use
        self._done: dict[tuple[str, str], str] = {}

    def apply(self, value: T) -> T:
        return cast("T", self.walk(value, "text"))

    def walk(self, value: object, use: str) -> object:
        """`value` with every string in it as it may be shown; a string of its own is treated as `use`."""
        if isinstance(value, Enum) or value is None:
            return value
        if isinstance(value, str):
            return self._string(value, use)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changes = {
                field.name: self.walk(getattr(value, field.name), self._use(value, field.name))
                for field in dataclasses.fields(value)
            }
            return dataclasses.replace(value, **changes)
        if isinstance(value, tuple):
            return tuple(self.walk(item, use) for item in value)
        if isinstance(value, Mapping):
            return {self.walk(key, "own"): self.walk(item, use) for key, item in value.items()}
        return value

    def _string(self, value: str, use: str) -> str:
        known = self._done.get((value, use))
        if known is None:
            known = self._done[value, use] = self._shown(value, use)
        return known

    def _shown(self, value: str, use: str) -> str:
        text = clean(value)
        if self.redactor is None or use == "own":
            return cut(text)
        start = head(text)
        shown = self.redactor.path(start) if use == "path" else self.redactor(start)
        if start is text:
            return cut(shown)
        # The end of the head may be a part of a secret, which no pattern knows: it is not shown.
        shown = shown[: min(MAX_CHARACTERS, max(0, len(shown) - _MARGIN))]
        return f"{shown} ... [{len(text) - len(start):,} more characters]"


def head(text: str) -> str:
    """The beginning of a huge text, which is all that is redacted."""
    return text if len(text) <= _MOST_REDACTED else text[:_MOST_REDACTED]


def _use(owner: object, field: str) -> str:
    """How the text of a field is treated: "path" (a file's name as a whole), "own" (oomph's key) or "text"."""
    if (type(owner), field) in ((Quote, "source"), (Source, "name"), (Frame, "file")):
        return "path"
    return "own" if field in _OWN_KEYS.get(type(owner), ()) else "text"


def strings(value: object) -> Iterator[str]:
    """Every string in a value, depth first."""
    if isinstance(value, Enum) or value is None:
        return
    if isinstance(value, str):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from strings(getattr(value, field.name))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from strings(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from strings(key)
            yield from strings(item)
