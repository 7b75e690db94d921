"""Tasks as Slurm jobs, through submitit: one job each, in which the supervisor runs the command.

Everything of a job (its script, what it printed, its result) is in the folder `slurm` of the task's own folder, which
has to be on a file system that the nodes share.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit

from oomph.errors import OomphError, UsageError
from oomph.trial import supervise
from oomph.trial.engine import Finished, Task
from oomph.trial.engines.sharing import leave_word
from oomph.trial.engines.slurm_job import run_task
from oomph.trial.engines.slurm_options import WARNING_SECONDS, parameters_of
from oomph.trial.engines.slurm_state import FINAL, SENTENCES, TOLD_TO_END, WRITE_RESULTS, state_of

_TICK_SECONDS = 0.2
#: How often Slurm is asked for the states of jobs; its controller serves everybody.
_ASK_SECONDS = 10.0
#: How long after a job's end a file server may take to show its result, and accounting its last state.
_LATE_SECONDS = 15.0
#: A cancelled job is given up when Slurm has not said for so long that it ended (KillWait of slurm.conf(5) is 30 s).
_GIVE_UP_SECONDS = 180.0


@dataclass
class _Running:
    task: Task
    job: Any
    submitted: float
    asked: float = 0.0
    cancelled: float | None = None
    over: float | None = None
    state: str = ""


class SlurmEngine:
    """Runs tasks as Slurm jobs, `slots` of them submitted at a time.

    `cluster` is "slurm"; "local" is submitit's stand-in for it on this machine. Every other option is one of sbatch's:
    partition, account, time, nodes, gpus_per_node, cpus_per_task, mem... A job that waits in the queue has not begun:
    its time does not run. Raises UsageError where there is no Slurm, or an option makes no sense.
    """

    name = "slurm"

    def __init__(
        self,
        slots: int | str = 1,
        cluster: str = "slurm",
        ask_seconds: float | str = _ASK_SECONDS,
        **options: str,
    ) -> None:
        self._slots = int(slots)
        self._cluster = cluster
        self._ask_seconds = float(ask_seconds)
        self._options = {name: str(value) for name, value in options.items()}
        self._running: dict[str, _Running] = {}
        if cluster not in ("slurm", "local"):
            raise UsageError(f"--engine-option cluster={cluster}: there is slurm and local.")
        if cluster == "slurm" and (shutil.which("srun") is None or shutil.which("sbatch") is None):
            raise UsageError(
                "--engine slurm: sbatch and srun are not on the PATH; run it where jobs are submitted."
            )
        # submitit says on stderr what is said here in a sentence.
        logging.getLogger("submitit").setLevel(logging.ERROR)

    @property
    def slots(self) -> int:
        """How many jobs are submitted side by side."""
        return self._slots

    def start(self, task: Task) -> None:
        """Submits a job. Raises UsageError for an option that makes no sense, OomphError with what sbatch said where
        it refuses the job."""
        parameters = parameters_of(task, self._options)
        word = leave_word(task, self.name)
        warned = parameters["timeout_min"] * 60 - WARNING_SECONDS - 30
        try:
            executor = submitit.AutoExecutor(folder=task.folder / "slurm", cluster=self._cluster)
            executor.update_parameters(**parameters)
            with _told_to(task.folder / "stand-in.txt" if self._cluster == "local" else None):
                job = executor.submit(run_task, task, word, warned)
        except (submitit.core.utils.FailedSubmissionError, submitit.core.utils.FailedJobError) as error:
            raise OomphError(f"Slurm refused {task.name}: {_last_line(str(error))}.") from error
        except (OSError, RuntimeError, ValueError, NameError, AssertionError) as error:
            raise OomphError(f"{task.name} cannot be submitted: {_last_line(str(error))}.") from error
        self._running[task.name] = _Running(task, job, time.monotonic())

    def finished(self, timeout: float) -> Sequence[Finished]:
        """Tasks that have ended since the last call; waits at most `timeout` seconds for one."""
        until = time.monotonic() + timeout
        while True:
            found = [ended for one in list(self._running.values()) if (ended := self._look(one)) is not None]
            left = until - time.monotonic()
            if found or left <= 0 or not self._running:
                return found
            time.sleep(min(_TICK_SECONDS, left))

    def cancel(self, task: Task) -> None:
        """Cancels the job; it is `finished` as "cancelled" when Slurm says that it has ended."""
        one = self._running.get(task.name)
        if one is not None and one.cancelled is None:
            one.cancelled = time.monotonic()
            one.asked = 0.0
            one.job.cancel(check=False)

    def close(self) -> None:
        """Cancels what still waits or runs, and waits until it has ended."""
        for one in list(self._running.values()):
            self.cancel(one.task)
        while self._running:
            self.finished(1.0)

    # -- one job ---------------------------------------------------------------------------------------------------

    def _look(self, one: _Running) -> Finished | None:
        ended = self._ended(one)
        if ended is None:
            return None
        del self._running[one.task.name]
        if one.cancelled is not None:
            return replace(ended, stopped="cancelled")
        return ended

    def _ended(self, one: _Running) -> Finished | None:
        now = time.monotonic()
        result = _result(one)
        if result is not None and (one.cancelled is not None or not _needs_state(result)):
            return result
        if now - one.asked >= (self._ask_seconds if result is None else min(1.0, self._ask_seconds)):
            one.asked = now
            one.state = state_of(one.job)
        over = one.state in FINAL
        if over or result is not None:
            one.over = now if one.over is None else one.over
        late = one.over is not None and now - one.over > _LATE_SECONDS
        if result is not None:
            return self._with_state(one, result) if over or late else None
        # Such jobs write their result, if they ever began; a file server may show it later.
        begun = (one.task.folder / supervise.TASK).exists()
        if over and (late or one.state not in WRITE_RESULTS or (one.state == "CANCELLED" and not begun)):
            return self._without_result(one, FINAL[one.state], SENTENCES[one.state])
        if one.cancelled is not None and now - one.cancelled > _GIVE_UP_SECONDS:
            why = f"scancel {one.job.job_id} was sent, and Slurm has not said that the job ended"
            return self._without_result(one, "cancelled", why)
        return None

    def _with_state(self, one: _Running, result: Finished) -> Finished:
        """A result of a command that failed or was told to end, in the light of what Slurm says of the whole job."""
        said = FINAL.get(one.state, "lost")
        if one.state == "OUT_OF_MEMORY":
            return replace(result, stopped="memory", why=SENTENCES[one.state])
        if result.stopped == "cancelled":
            # Not from here.
            why = SENTENCES[one.state] if one.state in TOLD_TO_END else "the job was told to end"
            return replace(result, stopped=said, why=f"Slurm job {one.job.job_id}: {why}")
        return result

    def _without_result(self, one: _Running, stopped: str, why: str) -> Finished:
        said = ""
        if stopped == "lost":
            said = _last_line(one.job.stderr() or "")
        why = f"Slurm job {one.job.job_id}: {why}" + (f"; its last words: {said}" if said else "")
        return Finished(one.task, None, stopped, why, time.monotonic() - one.submitted)


def _needs_state(result: Finished) -> bool:
    """Whether only Slurm knows why a command ended as it did."""
    return result.stopped == "cancelled" or (not result.stopped and result.exit_code != 0)


def _result(one: _Running) -> Finished | None:
    """What the job left, of all its nodes: what ended the first one that was ended or failed; None as long as one has
    left nothing."""
    jobs = [one.job.task(index) for index in range(one.job.num_tasks)]
    if not all(job.paths.result_pickle.exists() for job in jobs):
        return None
    found: list[Finished] = []
    for job in jobs:
        failure = job.exception()
        if failure is not None:
            why = f"Slurm job {job.job_id}: {_last_line(str(failure))}"
            return Finished(one.task, None, "lost", why, time.monotonic() - one.submitted)
        found.append(replace(job.result(), task=one.task))
    bad = [ended for ended in found if ended.stopped or ended.exit_code]
    return bad[0] if bad else found[0]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip().strip("-")]
    return lines[-1].rstrip(".")[:500] if lines else ""


@contextlib.contextmanager
def _told_to(path: Path | None) -> Iterator[None]:
    """What is started meanwhile says its errors to a file: submitit's stand-in prints a traceback whenever a job is
    cancelled. None: nothing is changed."""
    if path is None:
        yield
        return
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
