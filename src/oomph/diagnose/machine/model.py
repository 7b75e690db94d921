"""What a check answers, and what all of them make together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote

if TYPE_CHECKING:
    from oomph.job.model import Job


class Severity(str, Enum):
    """`error`: the job cannot work so, or memory is lost to it. `warning`: it does not do what is believed, or it can
    end a job later. `note`: good to know; it does not make the exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `says` is what, with its numbers, in one or two sentences; `does` is what that really
    does to a job; `fix` the first thing to do, a sentence, and `paste` the command, the line or the value for it.
    `subject` is what it is about in two words ("GPU 3", "NCCL_IB_HCA"). `numbers` are bytes or counts by name. `wrong`
    is tempting advice that does not help here, "" where there is none beside the check's own."""

    says: str
    does: str = ""
    fix: str = ""
    paste: str = ""
    subject: str = ""
    severity: Severity = Severity.ERROR
    certainty: Certainty = Certainty.CERTAIN
    numbers: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[Quote, ...] = ()
    wrong: str = ""


@dataclass(frozen=True)
class Clear:
    """The check looked and found nothing wrong; `why` says by what, with the numbers ("driver 535.104.05 runs CUDA
    12.1 builds: they need at least 525.60.13")."""

    why: str


@dataclass(frozen=True)
class CouldNotTell:
    """The check could not be made; `why` is what was missing, and what would tell ("no driver version: the output of
    nvidia-smi tells it")."""

    why: str


@dataclass(frozen=True)
class NotHere:
    """The check has no subject on this machine (no NCCL variable is set; one GPU alone). Nothing is printed of it."""


Answer = tuple[Problem, ...] | Clear | CouldNotTell | NotHere


@dataclass(frozen=True)
class Asked:
    """What a check may look at. `job` is what is to be trained, where it was given."""

    environment: Environment
    job: Job | None = None


@dataclass(frozen=True)
class CheckFinding:
    """A problem with the check that found it: its code, cause and name (as a rule's)."""

    code: str
    cause: str
    name: str
    problem: Problem


@dataclass(frozen=True)
class Told:
    """What a check answered other than a problem: `state` is "clear" or "could not tell"."""

    code: str
    cause: str
    name: str
    state: str
    why: str


@dataclass(frozen=True)
class Checkup:
    """The answer of `doctor`. `findings` are ordered: errors, warnings, notes; within, certain ones first, then by
    code."""

    environment: Environment
    findings: tuple[CheckFinding, ...] = ()
    clear: tuple[Told, ...] = ()
    untold: tuple[Told, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 with an error or a warning, else 0: notes are no findings."""
        return int(any([one.problem.severity is not Severity.NOTE for one in self.findings]))
