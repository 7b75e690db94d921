"""How a trial is run where commands really run: under `oomph record`, watched until it has shown enough."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from oomph.trial.engine import Finished
from oomph.trial.goal import Goal
from oomph.trial.model import TrialResult, Value
from oomph.trial.outcome import RUN, read_trial
from oomph.trial.progress import Progress
from oomph.trial.way import Watching


class Recorded:
    """Trials that are recorded. `Watch` objects tell when one is to be ended."""

    def command(self, command: tuple[str, ...], folder: Path, goal: Goal | None = None) -> tuple[str, ...]:
        """The command that is started."""
        del goal  # whoever watches ends it
        record = (
            sys.executable,
            "-m",
            "oomph",
            "record",
            "--phases",
            "--no-explain",
            "-q",
            "--keep",
            "256MiB",
        )
        return (*record, "--run-dir", str(folder / RUN), "--", *command)

    def watch(self, folder: Path, goal: Goal) -> Watch:
        """Looks at a trial while it runs."""
        return Watch(folder, goal)

    def read(
        self, finished: Finished, number: int, setting: Mapping[str, Value], watch: Watching
    ) -> TrialResult:
        """The result of a trial that has ended."""
        return read_trial(
            finished, number=number, setting=setting, reached=watch.reached, goal=str(watch.goal)
        )

    def times(self, folder: Path, phase: str) -> int:
        """How often a phase had ended in a trial that is over."""
        progress = Progress(folder / RUN)
        progress.look()
        return progress.times(phase)


class Watch:
    """One running trial. `look` says whether it is to be ended now; `reached`: because it has passed its goal."""

    def __init__(self, folder: Path, goal: Goal) -> None:
        self.goal = goal
        self.reached = False
        self._progress = Progress(folder / RUN)

    def look(self) -> bool:
        """Whether there is nothing more to learn: the goal is passed on every rank, or a rank is out of memory, which
        ends the trial on all of them."""
        self._progress.look()
        if self._progress.out_of_memory:
            return True
        self.reached = self._progress.reached(self.goal)
        return self.reached

    def steps(self) -> int | None:
        """Optimizer steps that are done."""
        return self._progress.steps
