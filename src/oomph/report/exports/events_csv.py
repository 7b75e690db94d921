"""Events as CSV: RFC 4180's quoting, UTF-8, a first line of names, "\\n" at the end of lines."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.report.exports.columns import Column, columns
from oomph.report.exports.target import replacing
from oomph.report.exports.window import chosen

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Events that become text at once: some 10 MB of it.
_PIECE = 1 << 16
#: A spreadsheet takes text that begins like this for a formula and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(
    target: Path,
    analysis: Analysis,
    *,
    first: int | None = None,
    last: int | None = None,
    redact: bool = False,
) -> None:
    """Writes the events from `first` up to, not including, `last`; without both all. See `exports.export`."""
    begin, end = chosen(analysis, first, last)
    table = columns(analysis, begin, end, redact=redact)
    row = ",".join("%s" if column.words or column.optional else "%d" for column in table) + "\n"
    words = [None if column.words is None else [*map(cell, column.words), ""] for column in table]
    with replacing(target) as stream:
        stream.write((",".join(column.name for column in table) + "\n").encode())
        for start in range(0, end - begin, _PIECE):
            values = [
                _texts(column.part(start, start + _PIECE), known)
                for column, known in zip(table, words, strict=True)
            ]
            # One format for a whole row: a join of fourteen cells, or csv.writer, takes two to three times as long.
            text = "".join(map(row.__mod__, zip(*values, strict=True)))
            stream.write(text.encode())


def cell(text: str) -> str:
    """A text as a CSV cell that no spreadsheet runs: what begins like a formula gets a quote in front."""
    if text.startswith(_FORMULA):
        text = "'" + text
    if any(character in text for character in '",\r\n') or text != text.strip():
        text = '"' + text.replace('"', '""') + '"'
    return text


def _texts(column: Column, words: list[str] | None) -> list[Any]:
    """The cells: text, or numbers where all are there. -1 finds the empty text at the end of `words`."""
    values: list[Any] = column.values.tolist()
    if words is not None:
        return list(map(words.__getitem__, values))
    if column.optional:
        if not len(column.values) or int(column.values.max()) < 0:
            return list(repeat("", len(values)))
        return ["" if value < 0 else value for value in values]
    return values
