"""Text to process ends."""

from __future__ import annotations

from oomph.evidence.launchers import parse
from oomph.evidence.model import Document, Line, ProcessExit


def document(text: str) -> Document:
    return Document(
        "job.log", [Line(line, number) for number, line in enumerate(text.split("\n"), 1)], index=2
    )


def exits(text: str) -> list[ProcessExit]:
    return parse(document(text))


def codes(text: str) -> list[tuple[int | None, int | None, int | None]]:
    """(code, rank, pid) of every exit."""
    return [(end.code, end.rank, end.pid) for end in exits(text)]
