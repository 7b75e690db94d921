"""HTML table cells: the header above a cell can name the rank that wrote it."""

from __future__ import annotations

import re

_CELL = re.compile(r"<t([dh])\b[^<>]{0,400}>", re.IGNORECASE)
_ROW = re.compile(r"<tr\b", re.IGNORECASE)
_RANK = re.compile(r"\brank\s*(\d{1,6})\b", re.IGNORECASE)


class CellRanks:
    """Follows table markup line by line; `rank_of(raw)` is the rank that the header of the line's last cell names."""

    def __init__(self) -> None:
        self._headers: list[int | None] = []
        self._column = 0

    def rank_of(self, raw: str) -> int | None:
        """`raw` is one line with its markup. None without a cell or without a header that names a rank."""
        if "<t" not in raw and "<T" not in raw:
            return None
        if _ROW.search(raw):
            self._column = 0
        rank: int | None = None
        for match in _CELL.finditer(raw):
            if match[1] in "hH":
                if self._column == 0:
                    self._headers = []
                text = raw[match.end() : match.end() + 80].partition("<")[0]
                named = _RANK.search(text)
                self._headers.append(int(named[1]) if named else None)
            elif self._column < len(self._headers):
                rank = self._headers[self._column]
            self._column += 1
        return rank
