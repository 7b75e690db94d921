"""Small pieces that the parsers share: yes and no, sizes and whole numbers as tools print them."""

from __future__ import annotations

import re

from oomph.units import GIB, KIB, MIB, TIB, parse_size

_WHOLE = re.compile(r"\s*([0-9]{1,18})\b")
_SUFFIXED = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s?([KMGTP]?)(i?)(B?)\s*\Z", re.IGNORECASE)
_BINARY = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB, "p": TIB << 10}
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}


def whole(text: str | None) -> int | None:
    """The whole number that a text begins with ("639 bank(s)"); None for "N/A" and the like."""
    match = _WHOLE.match(text or "")
    return int(match[1]) if match is not None else None


def size(text: str | None) -> int | None:
    """The bytes of "24576 MiB" or "791646012 kB" (the kernel's kB are 1024 bytes); None for what is no size."""
    text = (text or "").strip()
    if text.endswith(" kB"):
        number = whole(text)
        return None if number is None else number * KIB
    amount = parse_size(text)
    return None if amount is None else amount.bytes


def suffixed(text: str | None, *, default: str = "", binary_alone: bool = True) -> int | None:
    """The bytes of "64g", "512Mi", "16GiB", "8GB" or "1024": `default` is the unit of a number without one. A unit
    without "i" is binary where `binary_alone` says so (Docker, Slurm, shells), decimal where not (Kubernetes)."""
    match = _SUFFIXED.match(text or "")
    if match is None:
        return None
    unit = (match[2] or default).lower()
    table = _BINARY if binary_alone or match[3] else _DECIMAL
    value = int(float(match[1]) * table[unit]) if "." in match[1] else int(match[1]) * table[unit]
    return value if value < 2**63 else None


def yes(text: str | None) -> bool | None:
    """Enabled, On, Yes, Active and their opposites; None for anything else."""
    word = (text or "").strip().lower()
    if word in ("enabled", "on", "yes", "active", "true", "1"):
        return True
    if word in ("disabled", "off", "no", "not active", "inactive", "false", "0"):
        return False
    return None
