"""What is asked of a recorded run, and the answers. All sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from oomph.phases import Phase


class Status(str, Enum):
    """An answer. `unknown`: the records do not tell, and the answer's text says why. `skipped`: the check does not
    concern this run, or nobody asked for it."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "could not tell"
    SKIPPED = "skipped"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Answer:
    """What one check says. `check` is its name, which stays the same over versions; `subject` tells several answers of
    one check apart ("allocated:backward"). `text` is a sentence with the numbers it rests on; `numbers` are those by
    name: bytes, except where the name ends in `_percent`, `_steps` or `_count`. `rank` and `phase`: where it was
    decided, None where that is nowhere in particular."""

    check: str
    status: Status
    text: str
    subject: str = ""
    rank: int | None = None
    phase: Phase | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Check and subject as one name: "limit[backward]"."""
        return f"{self.check}[{self.subject}]" if self.subject else self.check


@dataclass(frozen=True)
class Verification:
    """All answers for one run. `notes` are sentences about what could not be read, and what else a reader should know.
    `strict`: what cannot be told counts as failed."""

    run: str
    path: str
    outcome: str
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()
    strict: bool = False

    def of(self, status: Status) -> tuple[Answer, ...]:
        """The answers of one status."""
        return tuple(answer for answer in self.answers if answer.status is status)

    @property
    def verdict(self) -> Status:
        """failed: a check failed. passed: at least one did, and no other is open. Else it could not be told."""
        if self.of(Status.FAILED):
            return Status.FAILED
        return Status.UNKNOWN if self.of(Status.UNKNOWN) or not self.of(Status.PASSED) else Status.PASSED

    @property
    def exit_code(self) -> int:
        """1 where a check failed, where nothing at all was verified, and with `strict` where something could not be
        told; else 0."""
        if self.verdict is Status.FAILED or not self.of(Status.PASSED):
            return 1
        return 1 if self.strict and self.verdict is Status.UNKNOWN else 0
