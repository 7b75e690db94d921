"""Columns, wrapping and colour of plain text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: SGR parameters of the styles that reports use.
_SGR = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "heading": "1;36",
    "bad": "1;31",
    "good": "1;32",
}


@dataclass(frozen=True)
class Style:
    """Puts ANSI codes round text when `colour`, and nothing otherwise."""

    colour: bool = False

    def __call__(self, text: str, name: str) -> str:
        """`text` in the style `name`; "" is no style."""
        code = _SGR.get(name, "") if self.colour else ""
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def cells(text: str) -> int:
    """Columns that a terminal needs for `text` (no control characters): wide characters take two, marks none."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled up with blanks to `width` columns (on the left with `right`)."""
    blanks = " " * max(0, width - cells(text))
    return blanks + text if right else text + blanks


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` columns, its end replaced by ".." where it is longer."""
    if cells(text) <= width:
        return text
    head = next(_pieces(text, max(1, width - 2)))
    return head.rstrip() + ".."


def wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """`text` as lines of at most `width` columns, prefixes included; words longer than a line are broken; [] for "".

    `first` stands before the first line, `rest` (the same number of blanks if None) before the others. Newlines in
    `text` are kept as line breaks.
    """
    indent = " " * cells(first) if rest is None else rest
    room = max(8, width - max(cells(first), cells(indent)))
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines.extend(_fill(paragraph.split(), room) or ([""] if lines else []))
    if not lines:
        return []
    prefixes = [first] + [indent] * (len(lines) - 1)
    return [(prefix + line).rstrip() for prefix, line in zip(prefixes, lines, strict=True)]


def _fill(words: Sequence[str], room: int) -> list[str]:
    lines: list[str] = []
    current, used = "", 0
    for word in words:
        for piece in _pieces(word, room):
            size = cells(piece)
            if current and used + 1 + size <= room:
                current, used = f"{current} {piece}", used + 1 + size
            else:
                if current:
                    lines.append(current)
                current, used = piece, size
    return [*lines, current] if current else lines


def _pieces(word: str, room: int) -> Iterator[str]:
    """`word` in pieces of at most `room` columns."""
    if cells(word) <= room:
        yield word
        return
    start, used = 0, 0
    for index, character in enumerate(word):
        size = _cell(character)
        if used + size > room and index > start:
            yield word[start:index]
            start, used = index, 0
        used += size
    yield word[start:]


def table(rows: Sequence[Sequence[str]], width: int, *, gap: int = 2, indent: str = "  ") -> list[str]:
    """Rows of cells as aligned columns; the last column is wrapped into what is left of `width`."""
    if not rows:
        return []
    count = len(rows[0])
    widths = [max(cells(row[column]) for row in rows) for column in range(count - 1)]
    lines: list[str] = []
    for row in rows:
        lead = indent + "".join(pad(row[column], widths[column] + gap) for column in range(count - 1))
        lines.extend(wrap(row[-1], width, lead) or [lead.rstrip()])
    return lines
