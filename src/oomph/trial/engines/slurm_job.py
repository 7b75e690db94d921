"""What runs inside a Slurm job: one task under the supervisor, as on this machine."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from types import FrameType

from oomph.trial.engine import Finished, Task
from oomph.trial.engines.local import LocalEngine
from oomph.trial.engines.sharing import missing_word

_TICK_SECONDS = 0.1
#: By which Slurm, as submitit asks it to, says that the job's time is nearly over, or that it is preempted.
_WARNING = signal.SIGUSR2


def run_task(task: Task, word: str, seconds: float) -> Finished:
    """Runs a task to its end. `seconds`: from when on Slurm's warning means that the job's time is over.

    On a job's second node and further ones the task has a folder of its own, `node1`..., below the first one's: the
    command is run on each, and finds out by SLURM_PROCID, or SLURM_NODEID, where it is.
    """
    missing = missing_word(task, word)
    if missing:
        return Finished(task, None, "lost", missing)
    rank = int(os.environ.get("SLURM_PROCID", "0"))
    here = task if rank == 0 else replace(task, folder=task.folder / f"node{rank}")
    here.folder.mkdir(exist_ok=True)
    began = time.monotonic()
    heard: list[int] = []

    def hear(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    for number in (signal.SIGTERM, signal.SIGINT, _WARNING):
        signal.signal(number, hear)
    engine = LocalEngine()
    try:
        engine.start(here)
        while not (ended := engine.finished(_TICK_SECONDS)):
            if heard:
                engine.cancel(here)
        result = replace(ended[0], task=task)
    finally:
        engine.close()
    if heard and heard[0] == _WARNING:
        if time.monotonic() - began >= seconds:
            return replace(result, stopped="seconds", why="the job's time in Slurm was over")
        return replace(result, stopped="lost", why="Slurm took the job's nodes back (preemption)")
    # By whom, Slurm knows: the engine asks it.
    return replace(result, stopped="cancelled", why="") if heard else result
