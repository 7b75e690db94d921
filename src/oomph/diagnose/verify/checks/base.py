"""What a check is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from oomph.diagnose.verify.model import Answer
from oomph.diagnose.verify.view import Asked


class Check(Protocol):
    """One question to a run. `name` never changes; the class's docstring says what passes and what fails."""

    name: str

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """The answers: one, or one for each thing that was asked for."""
