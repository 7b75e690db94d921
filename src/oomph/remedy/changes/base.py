"""What a change of a job is: one setting, whether it applies, what it makes of the job, and how it is written.

A change is a value: `MicroBatch(micro=2)` is another change than `MicroBatch(micro=1)`, and both are of the axis
"batch", of which a search takes one at most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from oomph.job.model import Job
from oomph.phases import Phase

Numerics = Literal["unchanged", "close", "changed"]
"""unchanged: the same operations on the same numbers. close: the same mathematics in another order or kernel, equal up
to rounding. changed: other mathematics, or fewer bits."""

Effort = Literal["flag", "code"]

#: What a user has to allow before a change that needs it is proposed.
ALLOWANCES = ("batch", "seq", "precision", "method", "machine")

TRAINING = frozenset({Phase.FORWARD, Phase.BACKWARD})
STEP = frozenset({Phase.BACKWARD, Phase.OPTIMIZER})
EVALUATION = frozenset({Phase.EVAL, Phase.GENERATE})
EVERYWHERE = frozenset(Phase)


class Change(ABC):
    """One change. `code` is stable and shared with the actions of `oomph explain` where both exist. `axis`: changes of
    one axis exclude each other. `phases`: where it can lower the peak. `needs`: what has to be allowed ("" nothing).
    """

    @property
    @abstractmethod
    def code(self) -> str:
        """What it is called in JSON."""

    @property
    @abstractmethod
    def axis(self) -> str:
        """The setting that it changes."""

    @property
    def numerics(self) -> Numerics:
        """What it does to the numbers."""
        return "unchanged"

    @property
    def effort(self) -> Effort:
        """Whether a flag is enough."""
        return "flag"

    @property
    def phases(self) -> frozenset[Phase]:
        """Where it can lower the peak."""
        return TRAINING

    @property
    def needs(self) -> str:
        """What has to be allowed, of ALLOWANCES."""
        return ""

    @property
    @abstractmethod
    def title(self) -> str:
        """The change in a few words, with its value."""

    @abstractmethod
    def applies(self, job: Job) -> str | None:
        """Why it does not apply to this job, as a sentence; None where it does."""

    @abstractmethod
    def apply(self, job: Job) -> Job:
        """The job with the change."""

    @abstractmethod
    def lines(self, job: Job) -> tuple[str, ...]:
        """What to write, in the spelling of the job's framework."""

    @abstractmethod
    def verify(self, job: Job) -> str:
        """How to see that it took effect."""
