"""Times as GPU tools print them, as seconds since the epoch (read as UTC) or since midnight."""

from __future__ import annotations

import calendar
import re

from oomph.evidence.lines.clock import parse_clock

_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})\s+([0-9]{2}:[0-9]{2}:[0-9]{2})")
_CTIME = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}([0-9]{1,2}) "
    r"([0-9]{2}):([0-9]{2}):([0-9]{2}) ([0-9]{4})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def seconds(text: str) -> float | None:
    """Seconds of "2025/03/04 09:10:00.100" or "20250304 09:10:00" (since the epoch) or "05:47:42.000" (midnight)."""
    stripped = text.strip()
    match = _CLOCK.fullmatch(stripped)
    if match is not None:
        whole = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
        return whole + (float(f"0.{match[4]}") if match[4] else 0.0)
    compact = _COMPACT.fullmatch(stripped)
    if compact is not None:
        stripped = f"{compact[1]}-{compact[2]}-{compact[3]} {compact[4]}"
    return parse_clock(stripped) if len(stripped) <= 40 else None


def ctime_seconds(text: str) -> float | None:
    """The time of a line "Tue Mar  4 09:10:00 2025", as nvidia-smi prints it above its table; else None."""
    match = _CTIME.search(text[:120])
    if match is None or not 1 <= int(match[2]) <= 31 or not 1970 <= int(match[6]) <= 2999:
        return None
    month = _MONTHS.index(match[1]) + 1
    parts = (int(match[6]), month, int(match[2]), int(match[3]), int(match[4]), int(match[5]))
    return float(calendar.timegm(parts))
