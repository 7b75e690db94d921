"""When something was printed, as far as the log says: only for order between files."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.evidence.lines.clock import parse_clock
from oomph.evidence.model import Evidence, Line, Position

#: So many lines before (and then behind) it are searched for a timestamp.
_REACH = 300
_BLOCK = 100


def time_of(evidence: Evidence, position: Position) -> float | None:
    """Seconds of the last timestamp at or before `position`, else of the first one behind it; None without any."""
    lines: list[Line] = evidence.documents[position.document].lines
    if not lines:
        return None
    at = min(position.line, len(lines) - 1)
    stamps = evidence.derived(_Stamps)
    before = stamps.between(position.document, max(0, at - _REACH + 1), at + 1, backwards=True)
    behind = stamps.between(position.document, at + 1, min(len(lines), at + _REACH))
    return next(before, next(behind, None))


class _Stamps:
    """The timestamps of the lines that somebody asked about, block by block: thousands of failures may stand close
    together, and each line is read once."""

    def __init__(self, evidence: Evidence) -> None:
        self._documents = evidence.documents
        self._blocks: dict[tuple[int, int], list[tuple[int, float]]] = {}

    def between(self, document: int, low: int, high: int, *, backwards: bool = False) -> Iterator[float]:
        """The timestamps of the lines from `low` to before `high`, last ones first if `backwards`."""
        numbers = range(low // _BLOCK, (high - 1) // _BLOCK + 1) if high > low else range(0)
        for number in reversed(numbers) if backwards else numbers:
            block = self._block(document, number)
            for index, stamp in reversed(block) if backwards else block:
                if low <= index < high:
                    yield stamp

    def _block(self, document: int, number: int) -> list[tuple[int, float]]:
        known = self._blocks.get((document, number))
        if known is None:
            start = number * _BLOCK
            lines = self._documents[document].lines[start : start + _BLOCK]
            found = ((start + offset, _stamp(line)) for offset, line in enumerate(lines))
            known = [(index, stamp) for index, stamp in found if stamp is not None]
            self._blocks[document, number] = known
        return known


def _stamp(line: Line) -> float | None:
    if line.time is not None:
        return line.time
    if len(line.text) >= 19 and (":" in line.text[:40]):
        return parse_clock(line.text[:60])
    return None
