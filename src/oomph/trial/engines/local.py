"""Tasks as processes of this machine, each under a supervisor that leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import OomphError
from oomph.trial import supervise
from oomph.trial.engine import Finished, Task
from oomph.trial.supervised import finished_of, mark_of, supervised

_TICK_SECONDS = 0.05
#: The supervisor needs so long at most to end everything; then it is ended itself.
_END_SECONDS = supervise.GRACE_SECONDS + supervise.KILL_SECONDS + 5.0


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    began: float
    #: When it was asked to end; None: it was not.
    cancelled: float | None = None


class LocalEngine:
    """Runs tasks side by side on this machine, `slots` at a time; one alone has the GPUs to itself."""

    name = "local"

    def __init__(self, slots: int = 1) -> None:
        self._slots = slots
        self._running: dict[str, tuple[Task, _Running]] = {}

    @property
    def slots(self) -> int:
        """How many tasks it runs side by side."""
        return self._slots

    def start(self, task: Task) -> None:
        """Begins a task at once. Raises OomphError where it cannot be begun."""
        end_earlier(task)
        command = supervised(task)
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **task.environment},
                # Ctrl-C reaches whoever asked for the trials, who ends them in order.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise OomphError(f"{task.name} cannot be started: {error}") from error
        self._running[task.name] = (task, _Running(process, time.monotonic()))

    def finished(self, timeout: float) -> Sequence[Finished]:
        """Tasks that have ended since the last call; waits at most `timeout` seconds for one."""
        until = time.monotonic() + timeout
        while True:
            found = [self._end(name) for name, (_, one) in list(self._running.items()) if self._is_over(one)]
            left = until - time.monotonic()
            if found or left <= 0 or not self._running:
                return found
            time.sleep(min(_TICK_SECONDS, left))

    def cancel(self, task: Task) -> None:
        """Ends a task and everything that it started; it is `finished` as "cancelled" afterwards."""
        found = self._running.get(task.name)
        if found is not None and found[1].cancelled is None:
            found[1].cancelled = time.monotonic()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                found[1].process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends what still runs, and waits until it is gone."""
        for task, _ in list(self._running.values()):
            self.cancel(task)
        while self._running:
            self.finished(1.0)

    def _is_over(self, one: _Running) -> bool:
        if one.process.poll() is not None:
            return True
        if one.cancelled is None or time.monotonic() - one.cancelled < _END_SECONDS:
            return False
        one.process.kill()
        one.process.wait()
        return True

    def _end(self, name: str) -> Finished:
        task, one = self._running.pop(name)
        left = end_marked(mark_of(task))
        ended = finished_of(task)
        if ended is None:
            # The supervisor itself was killed, or its disk was full.
            full = (supervise.free_bytes(str(task.folder)) or 0) < 1 << 20
            stopped = "disk" if full else "cancelled" if one.cancelled is not None else "lost"
            why = "the disk is full" if full else "its supervisor left no word"
            ended = Finished(task, None, stopped, why, time.monotonic() - one.began)
        if ended.stopped == "cancelled" and one.cancelled is None:
            why = ended.why or "its supervisor was killed, or told to end, by somebody else"
            ended = Finished(task, ended.exit_code, "lost", why, ended.seconds)
        if left:
            why = f"{ended.why}; {len(left)} processes could not be ended: {left[:5]}".strip("; ")
            ended = Finished(task, ended.exit_code, ended.stopped, why, ended.seconds)
        return ended


def end_earlier(task: Task) -> None:
    """Ends what an interrupted search still runs in this task's folder, and waits for its supervisor: it may take
    seconds, and would hold the card's memory, or leave its word, beside the new one. Raises OomphError where it does
    not end."""
    name = str(task.folder / supervise.TASK).encode()
    until = time.monotonic() + _END_SECONDS
    while True:
        left = [pid for pid in supervise.processes() if name in _words(pid)]
        if not left:
            break
        if time.monotonic() > until:
            raise OomphError(
                f"{task.folder}: process {left[0]} of an interrupted trial does not end: end it first."
            )
        for pid in supervise.marked(mark_of(task)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_TICK_SECONDS)
    end_marked(mark_of(task))


def _words(pid: int) -> list[bytes]:
    """The command line of a process; none where it cannot be read."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def end_marked(mark: str, seconds: float = 10.0) -> list[int]:
    """Ends every process with the mark of a task, where its supervisor could not; those that are left come back."""
    until = time.monotonic() + seconds
    while True:
        left = supervise.marked(mark)
        if not left or time.monotonic() > until:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_TICK_SECONDS)
