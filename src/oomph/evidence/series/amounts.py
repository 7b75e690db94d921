"""Printed figures as `Amount`, for the three ways in which printers treat units.

- `exact`: the printer's source is known to divide by 1024**n whatever it calls the unit.
- `loose`: the printer is unknown, or changed over time. "GB" is read as 2**30 bytes, as most training code means it,
  and the slack reaches down to 10**9 bytes, which much hand-written code means.
- `scaled`: the unit stands in the key ("memory/max_reserved(GiB)"), the number alone in the text.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from oomph.units import Amount, amount

_NUMBER = re.compile(r"([0-9][0-9,_]{0,30})(?:\.([0-9]{1,20}))?(?:[eE]([+-]?[0-9]{1,2}))?")
_LONG_FRACTION = re.compile(r"(\.[0-9]{12})[0-9]+")


def exact(number: str, unit: str) -> Amount | None:
    """`number` in `unit`, where GB, MB, G and M are binary; None when it is not a size."""
    return amount(_shorten(number), unit, decimal_units_are_binary=True)


def loose(number: str, unit: str) -> Amount | None:
    """Like `exact`, but for decimal-looking units the slack also covers the decimal reading."""
    binary = exact(number, unit)
    key = unit.lower()
    if binary is None or key.endswith("ib") or key in ("b", "byte", "bytes"):
        return binary
    decimal_unit = key if key.endswith("b") else f"{key}b"
    decimal = amount(_shorten(number), decimal_unit)
    if decimal is None:
        return binary
    return Amount(binary.bytes, max(binary.slack_bytes, binary.bytes - decimal.low_bytes))


def scaled(number: str, factor: int) -> Amount | None:
    """`number` ("1,024.50", "1.2e+10") times `factor` bytes; None when it is no number or no size."""
    match = _NUMBER.fullmatch(number)
    if match is None:
        return None
    fraction = match[2] or ""
    exponent = int(match[3] or 0)
    digits = match[1].replace(",", "").replace("_", "")
    try:
        value = Decimal(f"{digits}.{fraction or 0}e{exponent}") * factor
        size = int(value.to_integral_value(rounding="ROUND_HALF_EVEN"))
        half_digit = Decimal(factor).scaleb(exponent - len(fraction)) / 2
    except (InvalidOperation, OverflowError):
        return None
    if size >= 2**63:
        return None
    whole_bytes = factor == 1 and exponent <= len(fraction)
    return Amount(size, 0 if whole_bytes else int(half_digit.to_integral_value(rounding="ROUND_CEILING")))


def scaled_loose(number: str, factor: int, decimal_factor: int) -> Amount | None:
    """`scaled` by `factor`, with a slack that also covers the smaller `decimal_factor`."""
    binary = scaled(number, factor)
    decimal = scaled(number, decimal_factor)
    if binary is None or decimal is None:
        return binary
    return Amount(binary.bytes, max(binary.slack_bytes, binary.bytes - decimal.low_bytes))


def _shorten(number: str) -> str:
    """Cuts what `units.amount` does not take: more than twelve digits of a fraction (printed Python floats)."""
    return _LONG_FRACTION.sub(r"\1", number)
