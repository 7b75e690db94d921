"""What a check of a machine is. As the rules of `explain`: one file each, with a stable code and its documentation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from oomph.diagnose.machine.model import Answer, Asked


class Check(ABC):
    """Base of all checks. Subclasses set every class attribute; the texts are documentation for people, and stand on
    the pages of docs/rules under the same headings as a rule's."""

    code: ClassVar[str]
    cause: ClassVar[str]
    name: ClassVar[str]
    means: ClassVar[str]
    decisive_evidence: ClassVar[str]
    first_action: ClassVar[str]
    verify: ClassVar[str]
    wrong_advice: ClassVar[str]

    @abstractmethod
    def check(self, asked: Asked) -> Answer:
        """Looks at one machine. Never raises for odd values: what cannot be understood is "could not tell"."""
