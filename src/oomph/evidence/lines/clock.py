"""Timestamps at the start of log lines, as seconds. Only for order and distance, never shown."""

from __future__ import annotations

import calendar
import re

_FULL = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,9}))?(?:(Z)|([+-])(\d\d):?(\d\d))?"
)
_GLOG = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")


def parse_clock(text: str) -> float | None:
    """Seconds since the epoch of the first timestamp in `text` ("2025-03-04 09:00:41,118", RFC 3339, glog's
    "E0304 09:41:17.804000" with the year left at 1970); None when there is none. A missing zone is read as UTC."""
    match = _FULL.search(text)
    if match:
        year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
            return None
        stamp = float(calendar.timegm((year, month, day, hour, minute, second)))
        if match[7]:
            stamp += int(match[7]) / 10 ** len(match[7])
        if match[9]:
            offset = int(match[10]) * 3600 + int(match[11]) * 60
            stamp += -offset if match[9] == "+" else offset
        return stamp
    match = _GLOG.search(text)
    if match:
        month, day, hour, minute, second = (int(part) for part in match.groups()[:5])
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
            return None
        stamp = float(calendar.timegm((1970, month, day, hour, minute, second)))
        if match[6]:
            stamp += int(match[6]) / 10 ** len(match[6])
        return stamp
    return None
