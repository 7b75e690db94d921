"""What a check of a script answers."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.machine.model import CheckFinding, Problem, Told
from oomph.evidence.environment.model import Variable
from oomph.evidence.script.source import Script


@dataclass(frozen=True, order=True)
class Edit:
    """Bytes of the UTF-8 text from `start` to before `end` become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class ScriptProblem(Problem):
    """A problem at the line that `evidence` quotes. `edits` is a change that keeps what the script means to do, where
    there is one that is safe: the code did not work before, or computes the same afterwards."""

    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Scripts:
    """What the checks said of all scripts. `variables` are environment variables that they set; `read` the scripts
    themselves, for those who change them."""

    findings: tuple[CheckFinding, ...] = ()
    untold: tuple[Told, ...] = ()
    variables: tuple[Variable, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    read: tuple[Script, ...] = ()
