"""What is to be run, as data that can be written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(str, Enum):
    """How Python finds the code: a file (or a folder or zip file with `__main__`), a module (`-m`), text (`-c`), a
    function that is called with keyword arguments, or a console script's function."""

    SCRIPT = "script"
    MODULE = "module"
    CODE = "code"
    FUNCTION = "function"
    ENTRY = "entry"


@dataclass(frozen=True)
class Launcher:
    """The launcher that stood before the script, and its own arguments as given. `environment` are variables that it
    sets and that need no library to know; accelerate's are made by its own functions where it is installed."""

    name: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """One script and what it is given.

    `name` is a path (SCRIPT), a module (MODULE), Python text (CODE) or `module:function`. `arguments` are what the
    script finds in `sys.argv[1:]`, `keywords` what a FUNCTION is called with. `environment` are variables that the
    command line itself sets. `interpreter` are Python's own options. `world_size` and `local_world_size` are numbers
    of processes that a launcher would start, in all and on one machine; None where no launcher says so. `notes` are
    sentences on what was left out of the command line.
    """

    kind: Kind
    name: str
    arguments: tuple[str, ...] = ()
    keywords: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    interpreter: tuple[str, ...] = ()
    program: str = ""
    launcher: Launcher | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The target in a few words, for sentences."""
        return {
            Kind.MODULE: f"-m {self.name}",
            Kind.CODE: "-c",
            Kind.ENTRY: self.program or self.name,
        }.get(self.kind, self.name)
