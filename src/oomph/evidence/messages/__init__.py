"""Failure texts, one module per family; formats are named as in docs/message-formats.md."""

from __future__ import annotations

from oomph.evidence.messages import (
    allocator,
    async_allocator,
    bare,
    host,
    killed,
    libraries,
    mps,
    nccl,
    others,
    translated,
)
from oomph.evidence.messages.compact import stream_texts
from oomph.evidence.model import Document, Failure, Position

#: Every family's parser takes a StreamText and yields Failures.
FAMILIES = (
    allocator.parse,
    async_allocator.parse,
    bare.parse,
    mps.parse,
    libraries.parse,
    nccl.parse,
    host.parse,
    killed.parse,
    others.parse,
    translated.parse,
)


def parse(document: Document) -> list[Failure]:
    """All failure texts of one document, in the order of its lines. Never raises on any text."""
    found: list[tuple[Position, int, Position, Failure]] = []
    for stream in stream_texts(document):
        for family in FAMILIES:
            found.extend((one.position, stream.column(one), one.end, one) for one in family(stream))
    found.sort(key=lambda item: item[:3])
    return [item[3] for item in found]
