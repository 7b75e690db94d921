"""Arithmetic of printed sizes, written out here so that it does not come from the code under test."""

from __future__ import annotations

from decimal import Decimal


def kib(value: float) -> int:
    return round(value * 2**10)


def mib(value: float) -> int:
    return round(value * 2**20)


def gib(value: float) -> int:
    return round(value * 2**30)


def printed(size_bytes: int) -> str:
    """As `format_size` of PyTorch's allocators prints a size: two decimals, the unit by the size."""
    if size_bytes <= 1024:
        return f"{size_bytes} bytes"
    if size_bytes <= 1048576:
        return f"{size_bytes / 1024.0:.2f} KiB"
    if size_bytes <= 1073741824:
        return f"{size_bytes / 1048576.0:.2f} MiB"
    return f"{size_bytes / 1073741824.0:.2f} GiB"


def exact(text: str) -> int:
    """The bytes of a printed size: "2.92 GiB" and MPS's older "2.92 GB" alike are 2.92 x 2**30."""
    number, unit = text.split()
    power = {"b": 0, "k": 10, "m": 20, "g": 30}[unit[0].lower()]
    return int((Decimal(number) * 2**power).to_integral_value())
