"""The answer as SARIF 2.1.0, for code scanning and for editors.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. A finding is a result; the first quote that
it rests on is its location, the others are related locations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote as percent_encode

from oomph import __version__
from oomph.diagnose.model import Diagnosis, Finding, Outcome
from oomph.evidence.model import Quote
from oomph.report.clean import clean, cut, flat
from oomph.report.options import ReportOptions
from oomph.report.places import first_change, level, message, quotes_of, shown_findings
from oomph.report.view import View, prepare
from oomph.report.words import headline, where

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: Characters of a quote.
_QUOTE = 2000
#: Heading -> attribute of a rule, for its help text.
_HELP = {
    "What it means": "means",
    "Decisive evidence": "decisive_evidence",
    "First action": "first_action",
    "How to verify": "verify",
    "Tempting, and wrong": "wrong_advice",
}
_ABSOLUTE = re.compile(r"(?:[A-Za-z]:)?/")


class RuleInfo(Protocol):
    """What a rule must have; the texts of `_HELP` are taken where they exist."""

    @property
    def code(self) -> str: ...

    @property
    def name(self) -> str: ...


def render_sarif(
    diagnosis: Diagnosis,
    options: ReportOptions,
    rules: Mapping[str, RuleInfo] | Iterable[RuleInfo] = (),
) -> str:
    """A SARIF log of one run. `rules` describes the codes of the findings, by code or as a list."""
    view = prepare(diagnosis, options)
    by_code = rules if isinstance(rules, Mapping) else {rule.code: rule for rule in rules}
    findings = shown_findings(view)
    codes = list(dict.fromkeys(finding.code for finding in findings))
    results = [_result(finding, codes.index(finding.code), view) for finding in findings]
    if not results and diagnosis.outcome is Outcome.FAILED:
        results = [_bare(view)]
    run = {
        "tool": {
            "driver": {
                "name": "oomph",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [descriptor(code, by_code.get(code), findings) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": diagnosis.exit_code,
                "toolExecutionNotifications": _notifications(view),
            }
        ],
        "results": results,
        "properties": {"outcome": diagnosis.outcome.value, "summary": headline(view)},
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def uri(source: str) -> str:
    """A file name as a URI reference: relative names stay relative, absolute ones become `file:` URIs."""
    if source == "-":
        return "stdin"
    path = source.replace("\\", "/")
    encoded = percent_encode(path, safe="/")
    if path.startswith("//"):
        return "file:" + encoded
    if _ABSOLUTE.match(path):
        return "file://" + ("" if path.startswith("/") else "/") + encoded.replace("%3A", ":", 1)
    return encoded


def _result(finding: Finding, index: int, view: View) -> dict[str, Any]:
    quotes = quotes_of(finding, view)
    words = message(finding, view)
    change = first_change(view)
    if change and finding is view.diagnosis.findings[0]:
        words = f"{words} {change}."
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": level(finding, view.diagnosis.outcome),
        "message": result_message(words),
        **places(quotes),
        "properties": {
            "certainty": finding.certainty.value,
            "cause": finding.cause,
            "phase": finding.phase.value,
            "numbers": dict(finding.numbers),
            "actions": list(finding.actions),
        },
    }
    if finding.rank is not None:
        result["properties"]["rank"] = finding.rank
    return result


def _bare(view: View) -> dict[str, Any]:
    """A failure that no finding explains."""
    quotes = [] if view.incident is None else [view.incident.failure.quote]
    return {"level": "error", "message": result_message(headline(view)), **places(quotes)}


def result_message(text: str) -> dict[str, str]:
    """A message object. "[text](target)" would be a link (section 3.11.6), so that text of a log must not have it."""
    return {"text": flat(text).replace("](", "] (")}


def places(quotes: Sequence[Quote]) -> dict[str, Any]:
    """The locations of a result: its first quote, and the others as related ones."""
    found: dict[str, Any] = {"locations": [_location(quote) for quote in quotes[:1]]}
    if len(quotes) > 1:
        found["relatedLocations"] = [
            {"id": number, **_location(quote), "message": result_message(cut(quote.text, _QUOTE))}
            for number, quote in enumerate(quotes[1:], 1)
        ]
    return found


def _location(quote: Quote) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": uri(quote.source)}}
    if quote.line > 0:
        place["region"] = {"startLine": quote.line, "snippet": {"text": cut(flat(quote.text), _QUOTE)}}
    return {"physicalLocation": place}


def descriptor(code: str, rule: RuleInfo | None, findings: Sequence[RuleInfo]) -> dict[str, Any]:
    """A reporting descriptor of SARIF. Without a description the finding's own name has to do."""
    if rule is None:
        name = next(finding.name for finding in findings if finding.code == code)
        return {"id": code, "name": _pascal(name), "shortDescription": {"text": flat(name) or code}}
    texts = [(heading, _text(getattr(rule, attribute, ""))) for heading, attribute in _HELP.items()]
    known = [(heading, text) for heading, text in texts if text]
    descriptor: dict[str, Any] = {
        "id": code,
        "name": _pascal(rule.name),
        "shortDescription": {"text": flat(rule.name) or code},
    }
    if known:
        descriptor["fullDescription"] = {"text": flat(known[0][1])}
        descriptor["help"] = {
            "text": "\n\n".join(f"{heading}: {text}" for heading, text in known),
            "markdown": "\n\n".join(f"**{heading}**\n\n{text}" for heading, text in known),
        }
    return descriptor


def _text(value: object) -> str:
    """A rule's text; lists are joined by line."""
    if isinstance(value, str):
        return clean(value).strip()
    if isinstance(value, (list, tuple)):
        return "\n".join(_text(item) for item in value)
    return ""


def _pascal(name: str) -> str:
    """A name as SARIF wants names: "activations-fill-the-card" is ActivationsFillTheCard."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    return "".join(word[:1].upper() + word[1:] for word in words) or "Finding"


def _notifications(view: View) -> list[dict[str, Any]]:
    """What is no finding: notes about the input, and errors that are not of memory."""
    diagnosis = view.diagnosis
    notes = [{"level": "note", "message": result_message(note)} for note in diagnosis.notes]
    errors = [
        {
            "level": "note",
            "message": result_message(f"not of memory: {where(quote)}: {cut(quote.text, _QUOTE)}"),
            "locations": [_location(quote)],
        }
        for quote in diagnosis.other_errors
    ]
    return [*notes, *errors]
