"""Texts of the tests: written to a file, and read as a user would have them read."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from oomph.evidence.environment.model import Environment
from oomph.evidence.environment.read import read_environment
from oomph.units import MIB


def given(folder: Path, text: str, name: str = "pasted.txt") -> Environment:
    """What a file with this text tells."""
    path = folder / name
    path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return read_environment([path])


def mib(count: int) -> int:
    return count * MIB
