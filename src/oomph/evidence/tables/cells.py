"""Small pieces that the table parsers share."""

from __future__ import annotations

import re

from oomph.evidence.model import Document, Position
from oomph.units import MIB, Amount

#: A longer line is not a row of a table.
MAX_CHARS = 2000

_DIGITS = re.compile(r"[0-9]{1,12}")


def position(document: Document, index: int) -> Position:
    """Where line `index` of `document` stands."""
    return Position(document.index, index)


def whole(text: str, factor: int = MIB) -> Amount | None:
    """A whole number of units ("48245") that a tool rounded or floored, so exact to one unit; None for other text."""
    digits = text.strip()
    if _DIGITS.fullmatch(digits) is None:
        return None
    size = int(digits) * factor
    return Amount(size, factor) if size < 2**63 else None
