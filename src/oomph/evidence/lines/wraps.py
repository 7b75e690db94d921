"""Undoes the hard wrapping of a terminal: a text in which every longer line was cut at one column."""

from __future__ import annotations

import re
from collections import Counter

#: (line number, text, rank named by a table header, True at a gap)
Row = tuple[int, str, "int | None", bool]

#: Terminals are not narrower, and longer lines are not cut by them.
NARROWEST, WIDEST = 50, 260
#: So many lines must end exactly at the column.
ENOUGH = 6
_RULE = re.compile(r"(\S)\1{20,}$")
_CLOSED = "│|+╮╯┃┐┘"


def unwrap(rows: list[Row]) -> list[Row]:
    """Joins lines that were cut at the document's last column; anything doubtful is left as it is.

    A document counts as wrapped when no line is longer than some column and several lines end exactly at it without
    being a rule, a box or a table row.
    """
    lengths = Counter(len(row[1]) for row in rows)
    width = max(lengths, default=0)
    if not NARROWEST <= width <= WIDEST or lengths[width] < ENOUGH:
        return rows
    if sum(_full(row[1], width) for row in rows) < max(ENOUGH, 0.8 * lengths[width]):
        return rows
    joined: list[Row] = []
    open_ended = False
    for row in rows:
        if open_ended and joined and not row[3]:
            number, text, rank, gap = joined[-1]
            joined[-1] = (number, text + row[1], rank, gap)
        else:
            joined.append(row)
        open_ended = _full(row[1], width) and len(joined[-1][1]) < 20 * width
    return joined


def _full(text: str, width: int) -> bool:
    return len(text) == width and text[-1] not in _CLOSED and not _RULE.search(text)
