"""What a script is asked for, and the script."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oomph.job.model import Job
from oomph.phases import Phase

#: What a script can stop after, in the order in which it comes to them.
PHASES = (
    Phase.LOAD,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.OPTIMIZER,
    Phase.EVAL,
    Phase.GENERATE,
    Phase.SAVE,
)


@dataclass(frozen=True)
class Asked:
    """The job, and the phase that is to fail (None: none in particular, so that a whole step runs, and what the job
    evaluates). `facts` are sentences about where both come from; `assumed` about what nobody said. `unsupported`: what
    the job asks for that a `Job` cannot say. `name`: how the script's file will be called."""

    job: Job
    phase: Phase | None = None
    facts: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    name: str = "repro.py"

    def also(self, *sentences: str) -> Asked:
        """With more that was assumed."""
        new = tuple(each for each in sentences if each and each not in self.assumed)
        return replace(self, assumed=(*self.assumed, *new))


@dataclass(frozen=True)
class Script:
    """The text, how it is run, and the sentences that stand in it: what was assumed, and what it leaves out."""

    text: str
    command: str
    phase: str
    assumed: tuple[str, ...]
    left_out: tuple[str, ...]
