"""How a fact is held against a value of a query: numbers as numbers, versions as versions, the rest as text."""

from __future__ import annotations

import re

_CHUNKS = re.compile(r"(\d+)")
_VERSION = re.compile(r"v?\d+(?:\.\d+)*\Z")


def matches(text: str | None, number: float | None, operator: str, wanted: str, size: float | None) -> int:
    """1 where the fact (`text`, and `number` where it is one) stands in that relation to what is wanted.

    `~`: contains it, whatever the case; a version (2.6) is contained in those that begin with it (2.6.1, 2.6+cu124),
    not in 2.60 or 12.6. `<` and the like compare numbers where both are, and else piece by piece, digits as numbers:
    2.10 is after 2.9.
    """
    if text is None:
        return 0
    if operator in ("~", "!~"):
        return int(_contains(text, wanted) == (operator == "~"))
    if number is not None and size is not None:
        order = (number > size) - (number < size)
    elif operator in ("=", "!="):
        order = int(text.casefold() != wanted.casefold())
    else:
        mine, other = _natural(text), _natural(wanted)
        order = (mine > other) - (mine < other)
    return int(
        {
            "=": order == 0,
            "!=": order != 0,
            "<": order < 0,
            "<=": order <= 0,
            ">": order > 0,
            ">=": order >= 0,
        }[operator]
    )


def _contains(text: str, wanted: str) -> bool:
    if _VERSION.match(wanted):
        pattern = rf"(?<![\d.]){re.escape(wanted.removeprefix('v'))}(?!\d)"
        return re.search(pattern, text) is not None
    return wanted.casefold() in text.casefold()


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Digits as numbers, before letters; local parts of versions (+cu124) do not count."""
    pieces = _CHUNKS.split(text.partition("+")[0].casefold())
    return [
        (0, int(each[:18]), "") if each.isdigit() else (1, 0, each)
        for each in pieces
        if each not in ("", ".")
    ]
