"""Sizes: the only place that turns bytes into text and text into bytes.

Inside oomph a size is an `int` of bytes. PyTorch prints sizes with two decimals in binary units, so a printed size
stands for an interval; `Amount` keeps the middle and the half-width.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

#: Unit spellings found in logs. `GB` is read as 2**30 only where the caller knows the printer means that.
_BINARY = {"b": 1, "byte": 1, "bytes": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}
_LETTER = {"k": KIB, "m": MIB, "g": GIB, "t": TIB}
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_DECIMAL_COMMA = re.compile(r"[0-9]{1,12},[0-9]{1,2}$")
#: Bytes without a unit, as people write them on a command line.
_PLAIN = re.compile(r"[0-9][0-9_,]{0,24}(?:\.[0-9]{1,12})?(?:e\+?[0-9]{1,2})?\Z", re.IGNORECASE)
_SIZE = re.compile(r"\s*([0-9][0-9,_]*(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*\Z")

#: 2**64 - 1 printed in GiB: "not available" (WSL2, NVML) or "no limit" (cudaMallocAsync); never a size.
NOT_A_SIZE_GIB = Decimal("17179869184.00")


@dataclass(frozen=True)
class Amount:
    """A size as printed: `bytes`, exact to `slack_bytes` on either side (half of the last printed digit)."""

    bytes: int
    slack_bytes: int = 0

    @property
    def low_bytes(self) -> int:
        return max(0, self.bytes - self.slack_bytes)

    @property
    def high_bytes(self) -> int:
        return self.bytes + self.slack_bytes


def amount(number: str, unit: str, *, decimal_units_are_binary: bool = False) -> Amount | None:
    """The size that `number` and `unit` print, or None when they are not a size.

    `number` is digits with an optional fraction ("1,024.50"), `unit` any of bytes/B, KiB.., KB.., K... With
    `decimal_units_are_binary`, GB means 2**30 (MPS, DeepSpeed and most training logs divide by 1024**3 and print GB).
    2**64 - 1 in any unit is not a size: None.
    """
    key = unit.lower()
    factor = _BINARY.get(key) or _LETTER.get(key)
    if factor is None:
        factor = _DECIMAL.get(key)
        if factor is None:
            return None
        if decimal_units_are_binary:
            factor = _LETTER[key[0]]
    if _DECIMAL_COMMA.match(number):
        number = number.replace(",", ".")  # three digits behind a comma are thousands, one or two a fraction
    digits = number.replace(",", "").replace("_", "")
    if not re.fullmatch(r"[0-9]{1,30}(?:\.[0-9]{1,12})?", digits):
        return None
    value = Decimal(digits)
    size = int((value * factor).to_integral_value(rounding="ROUND_HALF_EVEN"))
    if size >= 2**63:
        return None
    places = len(digits.partition(".")[2])
    slack = 0 if factor == 1 else -(-factor // (2 * 10**places))
    return Amount(size, slack)


def parse_size(text: str, *, decimal_units_are_binary: bool = False) -> Amount | None:
    """`"2.92 GiB"` -> Amount(3135326126, slack 5368710); None when the text is not one size."""
    match = _SIZE.match(text)
    if match is None:
        return None
    return amount(match[1], match[2], decimal_units_are_binary=decimal_units_are_binary)


def size_given(text: str) -> int | None:
    """The bytes of a size that a person gives: "78GiB", or a plain number of bytes ("84208000000", "84.208e9"). None
    for what is no size, or not above 0."""
    if _PLAIN.match(text.strip()):
        size = Decimal(text.strip().replace("_", "").replace(",", ""))
        return int(size) if 1 <= size < 2**63 else None
    amount_given = parse_size(text)
    return amount_given.bytes if amount_given is not None and amount_given.bytes > 0 else None


def format_bytes(size_bytes: int) -> str:
    """A size as PyTorch prints it: bytes to 1024, KiB to 1 MiB, MiB up to and including 1 GiB, then GiB.

    Source: `format_size` in c10/cuda/CUDACachingAllocator.cpp (two decimals, so exactly 1 GiB is "1024.00 MiB").
    Negative sizes keep their sign. From 1 TiB on, still GiB.
    """
    if size_bytes < 0:
        return "-" + format_bytes(-size_bytes)
    if size_bytes <= KIB:
        return f"{size_bytes} bytes"
    if size_bytes <= MIB:
        return f"{size_bytes / KIB:.2f} KiB"
    if size_bytes <= GIB:
        return f"{size_bytes / MIB:.2f} MiB"
    return f"{size_bytes / GIB:.2f} GiB"
