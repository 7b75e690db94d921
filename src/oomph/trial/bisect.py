"""Runs a search: one trial after the other, each kept as it ends, until the cause is alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from oomph.trial.command import Template, unset
from oomph.trial.engine import Engine, Finished, Task
from oomph.trial.goal import END, Goal, goal_after
from oomph.trial.guess import Guess
from oomph.trial.leak import grows
from oomph.trial.model import Limits, TrialOutcome, TrialResult
from oomph.trial.protocol import Ask, Found, isolate
from oomph.trial.state import State
from oomph.trial.way import Watching, Way

#: Such ends may be an accident of the machine: the trial is run once more.
_AGAIN = frozenset((TrialOutcome.COMMUNICATION, TrialOutcome.LOST))
#: Such ends hold for the limits that a trial had: with others it is run again.
_LIMITED = frozenset((TrialOutcome.HUNG, TrialOutcome.HOST_OOM, TrialOutcome.DISK))
_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Told:
    """What is told while a search goes on: a trial begins (`result` None), or has ended. `kept`: it had been run by an
    earlier search of the same command."""

    ask: Ask
    number: int
    result: TrialResult | None = None
    kept: bool = False


@dataclass
class Bisection:
    """A search. `until` None: the phase in which the first trial failed, one step further. `gpus`: how many the engine
    is to give each trial."""

    template: Template
    engine: Engine
    way: Way
    state: State
    limits: Limits = field(default_factory=Limits)
    until: Goal | None = None
    guess: Guess = field(default_factory=Guess)
    gpus: int = 0
    tell: Callable[[Told], None] = lambda _told: None

    def run(self) -> tuple[Found, tuple[TrialResult, ...]]:
        """To the end. What was run before is not run again. Raises OomphError where a trial cannot be begun or kept;
        KeyboardInterrupt ends the trial that runs, and what has ended is kept."""
        search = isolate(self.template.variables, self.guess)
        trials: list[TrialResult] = []
        goal = self.until or END
        ask = next(search)
        while True:
            result = self._result(ask, goal, trials)
            if ask.against is None and self.until is None:
                goal = self._goal_after(result)
            try:
                ask = search.send(result)
            except StopIteration as end:
                found: Found = end.value
                return found, tuple(trials)

    def _goal_after(self, first: TrialResult) -> Goal:
        goal = goal_after(first.phase, first.step, self.way.times(Path(first.directory), first.phase))
        if grows(first) is not None:
            # As many steps as it failed after: growth that goes on shows in fewer, growth that stops does not.
            goal = Goal(steps=max(goal.steps, (first.step or 0) + 2))
        return goal

    def _result(self, ask: Ask, goal: Goal, trials: list[TrialResult]) -> TrialResult:
        """The result of a setting: one that is kept, else of a trial, or of a second one after an accident."""
        kept = [one for one in self.state.results_for(ask.setting) if self._holds(one)]
        trials += kept
        for one in kept:
            self.tell(Told(ask, one.number, one, kept=True))
        while not kept or (kept[-1].outcome in _AGAIN and len(kept) < 2):
            result = self._trial(ask, goal)
            kept = [*kept, result]
            trials.append(result)
        return kept[-1]

    def _holds(self, result: TrialResult) -> bool:
        """Whether a kept result says how this search's trial would end: more time or disk may change a hang."""
        return result.outcome not in _LIMITED or result.limits == self.limits

    def _trial(self, ask: Ask, goal: Goal) -> TrialResult:
        number, folder = self.state.next_folder()
        words, environment = self.template.made(ask.setting, folder)
        gone = unset(self.template.variables, ask.setting)
        command = self.way.command(words, folder, goal)
        if gone:
            command = ("env", *(word for name in gone for word in ("-u", name)), *command)
        task = Task(
            name=folder.name,
            command=command,
            folder=folder,
            working_directory=self.template.working_directory,
            # An outer `oomph record` has a run of its own.
            environment={"OOMPH_RUN_DIR": "", "PYTHONUNBUFFERED": "1", **environment},
            limits=self.limits,
            gpus=self.gpus,
        )
        watch = self.way.watch(folder, goal)
        self.tell(Told(ask, number))
        finished = self._finish(task, watch)
        result = self.way.read(finished, number, ask.setting, watch)
        limits = self.limits if result.outcome in _LIMITED else None
        result = msgspec.structs.replace(result, directory=str(folder), limits=limits)
        self.state.add(result)
        self.tell(Told(ask, number, result))
        return result

    def _finish(self, task: Task, watch: Watching) -> Finished:
        """Runs a task until it ends or has shown enough. Whatever interrupts this ends the task first."""
        self.engine.start(task)
        ended = False
        try:
            while True:
                for finished in self.engine.finished(_LOOK_SECONDS):
                    if finished.task.name == task.name:
                        ended = True
                        return finished
                if watch.look():
                    self.engine.cancel(task)
                    while not ended:
                        for finished in self.engine.finished(1.0):
                            if finished.task.name == task.name:
                                ended = True
                                return finished
        finally:
            if not ended:
                self._end(task)

    def _end(self, task: Task) -> None:
        """Ends a task whose result nobody waits for."""
        with contextlib.suppress(Exception):
            self.engine.cancel(task)
        until = time.monotonic() + 60.0
        with contextlib.suppress(Exception):
            while time.monotonic() < until:
                if any(one.task.name == task.name for one in self.engine.finished(1.0)):
                    return
