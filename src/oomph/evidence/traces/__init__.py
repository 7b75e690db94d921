"""Tracebacks, taken apart by writer: Python's own, rich's boxes, IPython's, pytest's, VS Code's."""

from __future__ import annotations

from oomph.evidence.model import Document, Traceback
from oomph.evidence.traces.parser import StreamTraces


def parse(document: Document) -> list[Traceback]:
    """All tracebacks of one document in the order in which they start. Never raises on any text."""
    streams: dict[str, StreamTraces] = {}
    known: dict[str, str] = {}
    for index, line in enumerate(document.lines):
        reader = streams.get(line.stream)
        if reader is None:
            reader = streams[line.stream] = StreamTraces(document, line.stream, known)
        reader.feed(index, line.text)
    found = []
    for reader in streams.values():
        reader.end(max(0, len(document.lines) - 1))
        found.extend(reader.found)
    found.sort(key=lambda traceback: (traceback.start, traceback.end))
    return found
