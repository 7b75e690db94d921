"""What an action is: one thing to do, worded for one case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step


class Action(ABC):
    """Base of all actions. `code` is stable and stands in Finding.actions; `title` is the change in a few words."""

    code: ClassVar[str]
    title: ClassVar[str]

    def applies(self, case: Case) -> bool:
        """False when the log shows that it is done already, or that it cannot help here."""
        del case
        return True

    @abstractmethod
    def step(self, case: Case, finding: Finding) -> Step:
        """The action as a step with the numbers of this log."""

    def make(
        self,
        text: str,
        paste: str = "",
        *,
        title: str = "",
        frees_bytes: int | None = None,
        outcomes: tuple[tuple[str, str], ...] = (),
    ) -> Step:
        """A Step of this action."""
        return Step(self.code, title or self.title, text, paste, frees_bytes, outcomes)
