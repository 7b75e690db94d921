"""How trials are run and read, whatever engine runs them: recorded (trial.recorded), or traced (trial.traced)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from oomph.trial.engine import Finished
from oomph.trial.goal import Goal
from oomph.trial.model import TrialResult, Value


class Watching(Protocol):
    """A running trial, seen from outside."""

    goal: Goal
    reached: bool

    def look(self) -> bool:
        """Whether it is to be ended now."""

    def steps(self) -> int | None:
        """Optimizer steps that are done."""


class Way(Protocol):
    """How trials are run: recorded, or traced."""

    def command(self, command: tuple[str, ...], folder: Path, goal: Goal | None = None) -> tuple[str, ...]:
        """The command that is started."""

    def watch(self, folder: Path, goal: Goal) -> Watching:
        """Looks at a trial while it runs."""

    def read(
        self, finished: Finished, number: int, setting: Mapping[str, Value], watch: Watching
    ) -> TrialResult:
        """The result of a trial that has ended."""

    def times(self, folder: Path, phase: str) -> int:
        """How often a phase had ended in a trial that is over."""
