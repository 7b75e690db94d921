"""What a check of a script is: one file each, with a stable code and its documentation, like a rule of `explain`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import ClassVar

from oomph.diagnose.machine.model import CouldNotTell
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Config, Script

Found = Iterable[ScriptProblem | CouldNotTell]


class ScriptCheck(ABC):
    """Base of all checks of scripts. Subclasses set every class attribute, as rules do, and look at Python, at
    configurations, or at both."""

    code: ClassVar[str]
    cause: ClassVar[str]
    name: ClassVar[str]
    means: ClassVar[str]
    decisive_evidence: ClassVar[str]
    first_action: ClassVar[str]
    verify: ClassVar[str]
    wrong_advice: ClassVar[str]

    def check(self, script: Script) -> Found:  # noqa: ARG002 - a check may look at configurations only
        """Problems of one Python file. Says nothing of names that it cannot follow."""
        return ()

    def check_config(self, config: Config) -> Found:  # noqa: ARG002 - most look at Python only
        """Problems of one YAML or JSON configuration."""
        return ()
