"""Who a learned prefix names, once the clock is taken out of it: lines of one writer differ in their times alone."""

from __future__ import annotations

import re
from itertools import pairwise

_CLOCK = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d|\d\d[-/.]\d\d[-/.]\d{4}|"  # dates
    r"\b[A-Z][a-z]{2} [ \d]?\d(?= )|"  # syslog's "Mar 04"
    r"\b[EWIFD]\d{4}\b|"  # glog's level, month and day
    r"\d?\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?|"
    r"[+-]\d\d:?\d\d\b|\bUTC\b|(?<=\d)[TZ]\b"
)
#: What is left of a clock: separators and brackets.
_EMPTY = re.compile(r"[\s\[\](){}|:,.T-]*$")


def writer_of(prefix: str) -> str:
    """The part of a prefix that stays the same from line to line; "" when it is nothing but a clock."""
    rest = _CLOCK.sub("", prefix)
    return "" if _EMPTY.match(rest) else " ".join(rest.split())


def counts_up(numbers: list[int]) -> bool:
    """True for the line numbers that `cat -n` and `grep -n` put before every line."""
    return len(numbers) >= 3 and all(after == before + 1 for before, after in pairwise(numbers))
