"""Text to facts."""

from __future__ import annotations

from oomph.evidence.facts import parse
from oomph.evidence.model import FACT_NAMES, Document, Fact, Line


def document(text: str, *, stream: str = "") -> Document:
    return Document(
        "job.log", [Line(line, number, stream) for number, line in enumerate(text.split("\n"), 1)]
    )


def facts(text: str) -> list[Fact]:
    found = parse(document(text))
    assert {fact.name for fact in found} <= set(FACT_NAMES)
    return found


def pairs(text: str, *names: str) -> list[tuple[str, str]]:
    """(name, value) of the facts of these names, or of all."""
    return [(fact.name, fact.value) for fact in facts(text) if not names or fact.name in names]


def settings(text: str, *without: str) -> dict[str, str]:
    """name -> last value."""
    return {fact.name: fact.value for fact in facts(text) if fact.name not in without}
