"""The recorded machines of tests/data/machines, and what is expected of each.

A folder holds what somebody would paste of one machine, and expected.json:

about       what is true, and why, in a sentence
source      "written", or "rebuilt from owner/repo#number" (hosts, users, ids, sizes and dates are changed)
files       each file, and the kind of text it is
findings    every code that must answer with an error or a warning; no other may
notes, may  codes that must, and codes that may, answer with a note (a note is no finding: the exit code stays 0)
says        texts that stand in what the code answers
never       texts that must not stand in it
subjects    a text that stands in the subject of the code's problem
untold      codes that must say that they could not tell
not         codes that would be tempting and wrong, each with why
job         a job as a TOML file would say it, where the check needs one
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

MACHINES = ROOT / "tests" / "data" / "machines"


@dataclass(frozen=True)
class Fixture:
    """One folder, with its expectations as they are written."""

    folder: Path
    expected: dict[str, Any]

    @property
    def name(self) -> str:
        """ "faulty/NAME" or "clean/NAME"."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def faulty(self) -> bool:
        """Whether something is wrong with the machine."""
        return self.folder.parent.name == "faulty"

    @property
    def pasted(self) -> list[Path]:
        """The files that somebody would hand over."""
        return [self.folder / name for name in sorted(self.expected["files"])]

    def codes(self, key: str) -> frozenset[str]:
        """The codes of one list of expected.json."""
        return frozenset(self.expected.get(key, ()))


def fixtures() -> list[Fixture]:
    """Every recorded machine, in the order of the names."""
    return [
        Fixture(path.parent, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(MACHINES.glob("*/*/expected.json"))
    ]
