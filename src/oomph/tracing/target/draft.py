"""A command line that is being read: what is left of it, and what was found so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oomph.tracing.target.model import Kind, Launcher, Target


@dataclass
class Draft:
    """`words` are still to be read. The command would run in `folder` with the variables of `inherited`."""

    words: list[str]
    folder: Path
    inherited: Mapping[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    interpreter: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    launcher: Launcher | None = None
    world_size: int | None = None
    local_world_size: int | None = None

    def take(self) -> str:
        """The next word, removed."""
        return self.words.pop(0)

    def variable(self, name: str) -> str | None:
        """A variable as the command would see it."""
        return self.environment.get(name, self.inherited.get(name))

    def finish(self, kind: Kind, name: str, program: str = "") -> Target:
        """The target; the words that are left are its arguments."""
        return Target(
            kind=kind,
            name=name,
            arguments=tuple(self.words),
            environment=dict(self.environment),
            interpreter=tuple(self.interpreter),
            program=program,
            launcher=self.launcher,
            world_size=self.world_size,
            local_world_size=self.local_world_size,
            notes=tuple(self.notes),
        )
