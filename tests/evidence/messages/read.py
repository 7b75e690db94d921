"""Runs the parser on a text."""

from __future__ import annotations

from oomph.evidence.lines import build_document
from oomph.evidence.messages import parse
from oomph.evidence.model import Failure


def read(text: str) -> list[Failure]:
    """The failures in `text`, as if it were a whole log."""
    return parse(build_document("train.log", [(1, text)]))


def numbers(failure: Failure) -> dict[str, int]:
    """The failure's numbers in bytes."""
    return {name: size.bytes for name, size in failure.numbers.items()}
