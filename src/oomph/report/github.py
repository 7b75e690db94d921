"""The answer as GitHub workflow commands: annotations on the lines of the log that prove it.

Format: https://docs.github.com/actions/reference/workflow-commands (`::error file=..,line=..,title=..::text`).
"""

from __future__ import annotations

from oomph.diagnose.model import Diagnosis, Outcome
from oomph.evidence.model import Quote
from oomph.report.clean import cut, flat
from oomph.report.options import ReportOptions
from oomph.report.places import first_change, level, message, quotes_of, shown_findings
from oomph.report.view import View, prepare
from oomph.report.words import asked_words, headline

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
#: GitHub shows about 4,000 characters of an annotation, and ten annotations of a kind per step.
_CHARACTERS = 3500


def render_github(diagnosis: Diagnosis, options: ReportOptions) -> str:
    """One command per finding, best first; one for the failure itself when nothing explains it; a line each."""
    view = prepare(diagnosis, options)
    lines = []
    for number, finding in enumerate(shown_findings(view)):
        quotes = quotes_of(finding, view)
        text = message(finding, view)
        if number == 0:
            text = _joined(text, _memory(view), first_change(view))
        title = f"{finding.code} {flat(finding.name)}"
        lines.append(
            command(_COMMANDS[level(finding, diagnosis.outcome)], text, title, quotes[0] if quotes else None)
        )
    if not lines:
        lines.append(_bare(view))
    return "\n".join(lines) + "\n"


def _bare(view: View) -> str:
    """The command for an answer without findings."""
    failed = view.diagnosis.outcome is Outcome.FAILED
    place = None if view.incident is None else view.incident.failure.quote
    advice = first_change(view) if view.is_explained else ""
    text = _joined(headline(view), _memory(view), advice)
    doubtful = any(source.damage for source in view.sources)
    return command("error" if failed else "warning" if doubtful else "notice", text, "oomph explain", place)


def _memory(view: View) -> str:
    return "" if view.incident is None else asked_words(view.incident.ledger)


def _joined(*sentences: str) -> str:
    return "\n".join(sentence for sentence in sentences if sentence)


def command(name: str, text: str, title: str, place: Quote | None) -> str:
    """One workflow command on one line."""
    properties = []
    if place is not None:
        if place.source != "-":
            properties.append(f"file={_property(place.source)}")
            if place.line > 0:
                properties.append(f"line={place.line}")
    properties.append(f"title={_property(title)}")
    return f"::{name} {','.join(properties)}::{_data(cut(text, _CHARACTERS))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(flat(text)).replace(":", "%3A").replace(",", "%2C")
