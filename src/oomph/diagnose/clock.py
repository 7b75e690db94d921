"""When something was printed, as far as the log says: only for order between files."""

from __future__ import annotations

from oomph.evidence.lines.clock import parse_clock
from oomph.evidence.model import Evidence, Line, Position

#: So many lines before (and then behind) it are searched for a timestamp.
_REACH = 300


def time_of(evidence: Evidence, position: Position) -> float | None:
    """Seconds of the last timestamp at or before `position`, else of the first one behind it; None without any."""
    lines: list[Line] = evidence.documents[position.document].lines
    if not lines:
        return None
    at = min(position.line, len(lines) - 1)
    order = [*range(at, max(-1, at - _REACH), -1), *range(at + 1, min(len(lines), at + _REACH))]
    for index in order:
        line = lines[index]
        stamp: float | None = line.time
        if stamp is not None:
            return stamp
        if len(line.text) >= 19 and (":" in line.text[:40]):
            stamp = parse_clock(line.text[:60])
            if stamp is not None:
                return stamp
    return None
