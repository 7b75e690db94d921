"""Pieces of patterns that several message families share. All patterns are without white space (see compact.py)."""

from __future__ import annotations

import re

from oomph.units import Amount, amount

#: A printed size: number and unit. Units are spelled out: a cut "1.31 G" is not a size.
SIZE = r"(\d[\d,]{0,15}(?:\.\d{1,4})?)(bytes|[KMGT]i?B)"

#: The class name before a message: "torch.OutOfMemoryError:", "RuntimeError:", pytest's "E".
_RAISED = re.compile(
    r"(?:^|[^\w.])(?:E(?=[a-z]|[A-Z]\w*Error))?(?:[\w.]*\.)?\w*(?:Error|Exception):(?:Error:)?$"
)
_PROSE = re.compile(
    r"e\.g\.|example|ifyousee|ifyouget|incase|suchas|whenyou|raise|assert|print\(|match=|f['\"]|"
    r"docs?:|README|hint:|tip:|note:|fixes|closes|means|typical|simulated|prints?[`'\"]|::test\w*\[|^#+[A-Za-z]",
    re.IGNORECASE,
)
_QUOTES = tuple("'\"`“‘«*#")
_OPEN_QUOTE = re.compile(r"(?:['\"`“‘«*]|^#{1,6}|^//|^-)(?:[\w.]{0,60}(?:Error|Exception):)?$")


def size_of(match: re.Match[str] | None, group: int = 1, *, binary_gb: bool = False) -> Amount | None:
    """The Amount of a SIZE match whose number is `group` and unit `group + 1`; None for no match or no size."""
    if match is None:
        return None
    return amount(match[group], match[group + 1], decimal_units_are_binary=binary_gb)


def is_raised(before: str) -> bool:
    """True when `before` (what stands on the line before the message) ends with an exception's class name that
    opens the line, as Python prints it; a class name inside a sentence does not count."""
    match = _RAISED.search(before[-200:])
    if match is None:
        return False
    lead = before[: max(0, len(before) - len(before[-200:])) + match.start()]
    if match[0][:1] in _QUOTES or lead[-1:] in _QUOTES:
        return False
    return len(lead) <= 3 or lead.endswith(("]", ")", "%|"))


def mention(before: str) -> str:
    """How the text before a message shows that it is talked about rather than printed: "prose" (code, an example, a
    comment), "quote" (only an opening quote, which a dict's or a log record's repr has too), or ""."""
    tail = before[-120:]
    if _PROSE.search(tail):
        return "prose"
    return "quote" if _OPEN_QUOTE.search(tail) else ""
