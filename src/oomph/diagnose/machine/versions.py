"""Versions of libraries that are told to different depths: 9.1.0 and 9.1.0.70 are the same."""

from __future__ import annotations

from oomph.hardware.drivers import numbers


def same(one: str, other: str) -> bool:
    """Whether two versions agree as far as both are told."""
    left, right = numbers(one), numbers(other)
    shared = min(len(left), len(right))
    return shared > 0 and left[:shared] == right[:shared]


def pinned(value: str) -> str:
    """The version of an exact requirement ("9.1.0.70" or "==9.1.0.70"); "" for a range, or what is none."""
    text = value.strip()
    text = text[2:].strip() if text.startswith("==") else text
    return text if text[:1].isdigit() and "," not in text and "*" not in text else ""
