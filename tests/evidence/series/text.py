"""Text to documents, and sizes written out."""

from __future__ import annotations

from oomph.evidence.model import Document, Line, MemorySample
from oomph.evidence.series import parse

GIB = 1024**3
MIB = 1024**2


def document(text: str, *, rank: int | None = None) -> Document:
    lines = [Line(line, number) for number, line in enumerate(text.split("\n"), 1)]
    return Document("train.log", lines, rank=rank)


def samples(text: str) -> list[MemorySample]:
    return parse(document(text))


def figures(text: str) -> list[tuple[str, int]]:
    return [(sample.what, sample.value.bytes) for sample in samples(text)]


def gib(value: float) -> int:
    """Bytes of a number of GiB that has few enough digits to be exact to a byte."""
    return round(value * GIB)
