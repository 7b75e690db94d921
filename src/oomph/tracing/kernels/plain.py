"""Operators known to allocate nothing but their results."""

from __future__ import annotations


def known(operator: str) -> bool:
    """Whether nothing has to be said of the operator."""
    return bool(operator)
