"""A writer's text without any white space, so that no wrapping of lines can hide or break a message.

Terminals, rich boxes, pagers and pastes break messages at any column, inside words and inside numbers. Every message
pattern in this package is written without white space and matched here; an offset leads back to the line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from oomph.evidence.model import Document, Failure, Kind, Position
from oomph.units import Amount

_BOX = "│┃|"


class StreamText:
    """The lines of one stream of one document, joined without white space and box borders."""

    def __init__(self, document: Document, stream: str, indices: list[int]) -> None:
        self.document = document
        self.stream = stream
        parts: list[str] = []
        self._starts: list[int] = []
        self.indices = indices
        offset = 0
        for index in indices:
            text = document.lines[index].text
            if "│" in text or "┃" in text or text[:1] == "|" or text[-1:] == "|":
                text = text.strip().strip(_BOX)
            part = "".join(text.split())
            self._starts.append(offset)
            parts.append(part)
            offset += len(part)
        self.text = "".join(parts)
        self._columns: dict[int, int] = {}

    def line_index(self, offset: int) -> int:
        """The index in the document of the line that holds `offset`."""
        return self.indices[max(0, bisect_right(self._starts, offset) - 1)]

    def position(self, offset: int) -> Position:
        return Position(self.document.index, self.line_index(offset))

    def before(self, offset: int) -> str:
        """What stands before `offset` on its own line, at most 400 characters of it."""
        start = self._starts[max(0, bisect_right(self._starts, offset) - 1)]
        return self.text[max(start, offset - 400) : offset]

    def lead(self, offset: int, length: int = 160) -> str:
        """What stands before `offset`, across lines (a wrap may have put it on the line before)."""
        return self.text[max(0, offset - length) : offset]

    def line_end(self, offset: int) -> int:
        """The offset at which the line that holds `offset` ends."""
        at = bisect_right(self._starts, offset)
        return self._starts[at] if at < len(self._starts) else len(self.text)

    def find_all(self, literal: str) -> Iterator[int]:
        """Offsets of `literal`, not overlapping."""
        at = self.text.find(literal)
        while at >= 0:
            yield at
            at = self.text.find(literal, at + len(literal))

    def matches(self, pattern: re.Pattern[str], *words: str) -> Iterator[re.Match[str]]:
        """The matches of `pattern`, each of which holds one of `words`: most texts hold none, which is quickly seen."""
        if any(word in self.text for word in words):
            yield from pattern.finditer(self.text)

    def failure(
        self,
        format: str,
        kind: Kind,
        start: int,
        end: int,
        *,
        vendor: str = "cuda",
        numbers: dict[str, Amount] | None = None,
        raised: bool = False,
        rank: int | None = None,
        **more: object,
    ) -> Failure:
        """A Failure at these offsets; rank and stream are the line's unless the text says otherwise."""
        index = self.line_index(start)
        line = self.document.lines[index]
        made = Failure(
            format=format,
            kind=kind,
            vendor=vendor,
            position=Position(self.document.index, index),
            end=self.position(max(start, end - 1)),
            quote=self.document.quote(index),
            numbers=numbers or {},
            rank=line.rank if rank is None else rank,
            stream=self.stream,
            raised=raised,
            **more,  # type: ignore[arg-type]
        )
        self._columns[id(made)] = start
        return made

    def column(self, failure: Failure) -> int:
        """Where in this text a failure that `failure()` just made starts; 0 for others. Asked once for each."""
        return self._columns.pop(id(failure), 0)


def stream_texts(document: Document) -> list[StreamText]:
    """One text per writer, in the order of first appearance. A gap (text left out) separates nothing here: no
    message pattern is longer than the neighbourhood that is kept around it."""
    by_stream: dict[str, list[int]] = {}
    for index, line in enumerate(document.lines):
        by_stream.setdefault(line.stream, []).append(index)
    return [StreamText(document, stream, indices) for stream, indices in by_stream.items()]
