"""Failure texts, one module per family; formats are named as in docs/message-formats.md."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from oomph.evidence.messages import (
    allocator,
    async_allocator,
    bare,
    foreign,
    host,
    killed,
    libraries,
    mps,
    nccl,
    others,
    schedulers,
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
    foreign.parse,
    host.parse,
    schedulers.parse,
    killed.parse,
    others.parse,
    translated.parse,
)


#: So many failure texts of one document are kept: the first and the last ones.
MOST = 10_000

_Found = tuple[Position, int, Position, Failure]


def parse(document: Document) -> list[Failure]:
    """The failure texts of one document, in the order of its lines. Never raises on any text."""
    return parse_ends(document, MOST)[0]


def parse_ends(document: Document, limit: int) -> tuple[list[Failure], int]:
    """`parse`, but of more than `limit` texts only the first and the last, and how many were left out."""
    found: list[_Found] = []
    left_out = 0
    for stream in stream_texts(document):
        for family in FAMILIES:
            placed = ((one.position, stream.column(one), one.end, one) for one in family(stream))
            kept, more = _ends(placed, limit)
            found += kept
            left_out += more
    found.sort(key=_order)
    found, more = _ends(found, limit)
    return [item[3] for item in found], left_out + more


def _order(item: _Found) -> tuple[Position, int, Position]:
    return item[:3]


def _ends(items: Iterable[_Found], limit: int) -> tuple[list[_Found], int]:
    """The first and the last of `items`, at most `limit`, and how many stood between them."""
    rest = iter(items)
    first = list(islice(rest, limit - limit // 2))
    last: deque[_Found] = deque(maxlen=limit // 2)
    count = 0
    for item in rest:
        count += 1
        last.append(item)
    return [*first, *last], count - len(last)
