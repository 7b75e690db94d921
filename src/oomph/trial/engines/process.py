"""One task as a process tree of this machine: what every engine that runs commands shares.

A task may take its time to end after it was cancelled (processes are asked first, then killed); nobody waits for that
but who wants to. Exit codes are as shells give them: 128 and the signal's number, 127 for a command that is not there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

import oomph
from oomph.errors import InputError
from oomph.trial.engine import Finished, Task

#: In every process of a trial: which one it belongs to. Trials inside of trials are separated by "/".
MARK = "OOMPH_TRIAL"
#: How long the processes of a task have to end when they are asked to, before they are killed, in seconds.
GRACE_SECONDS = 5.0
_HEADER_BYTES = 20
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from oomph.trial.engines.supervisor.main import main; main()"


class TaskProcess:
    """A running task. Not for several threads, but for `cancel`.

    `environment` is what the command gets before the task's own additions; None: what this process has. Raises
    InputError where the task's folder is not there, or no process can be started.
    """

    def __init__(
        self, task: Task, *, environment: Mapping[str, str] | None = None, grace: float = GRACE_SECONDS
    ) -> None:
        self.task = task
        self._cancelled = False
        self._finished: Finished | None = None
        self._said = b""
        self._began = time.monotonic()
        self._mark = secrets.token_hex(8)
        spec = self._spec({**(os.environ if environment is None else environment), **task.environment}, grace)
        if not task.folder.is_dir():
            raise InputError(f"{task.folder}: the folder of {task.name} is not there")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a constant
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(oomph.__file__).parent.parent)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise InputError(f"{task.name} cannot be started: {error.strerror or error}") from None
        self._send(f"{len(spec):>{_HEADER_BYTES}}".encode() + spec)

    def _spec(self, environment: dict[str, str], grace: float) -> bytes:
        task = self.task
        environment[MARK] = "/".join(filter(None, (environment.get(MARK), self._mark)))
        return json.dumps(
            {
                "command": task.command,
                "folder": str(task.folder.absolute()),
                "working_directory": str(task.working_directory.absolute()),
                "environment": environment,
                "limits": msgspec.to_builtins(task.limits),
                "grace": grace,
                "runner": os.getpid(),
            }
        ).encode("utf-8", "surrogatepass")

    def fileno(self) -> int:
        """Readable once it has ended: for `select`. Not after `poll` has told the end."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def poll(self) -> Finished | None:
        """How it ended, or None as long as it runs. Does not wait."""
        return self.wait(0.0)

    def wait(self, timeout: float | None = None) -> Finished | None:
        """How it ended; None if it still runs after `timeout` seconds (None: waits for its end)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._finished is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not _readable(self.fileno(), left):
                return None
            block = os.read(self.fileno(), 1 << 16)
            self._said += block
            if not block:
                self._end()
        return self._finished

    def cancel(self) -> None:
        """Has all its processes ended; `wait` tells when they are. May be called by another thread, and twice."""
        if not self._cancelled and self._finished is None:
            self._cancelled = True
            self._send(b"x")

    def close(self) -> None:
        """Ends it, and waits until none of its processes is left."""
        self.cancel()
        self.wait()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        with contextlib.suppress(OSError, ValueError):  # it has ended already; `wait` tells how
            while view:
                view = view[self._process.stdin.write(view) or 0 :]

    def _end(self) -> None:
        process = self._process
        for end in (process.stdin, process.stdout):
            assert end is not None
            with contextlib.suppress(OSError):
                end.close()
        code = process.wait()
        try:
            said = json.loads(self._said)
        except ValueError:
            why = f"the processes that watched it ended without a word (exit code {code})"
            said = {"exit_code": None, "stopped": "lost", "why": why, "seconds": 0.0}
        if said["stopped"] == "lost":
            kill_marked(self._mark)
        if self._cancelled:
            said["stopped"] = "cancelled"
        said["seconds"] = said["seconds"] or time.monotonic() - self._began
        self._finished = Finished(self.task, **said)


def _readable(file: int, seconds: float | None) -> bool:
    """Whether there is something to read, or its end, within that time."""
    waiting = select.poll()  # `select.select` refuses numbers above 1023
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1000))


def kill_marked(mark: str) -> int:
    """Kills every process with this mark in its environment, wherever it hangs in the tree of processes; how many
    there were. Only on Linux; the last resort where those that watched a trial were killed themselves."""
    wanted, killed = mark.encode(), 0
    for folder in Path("/proc").glob("[0-9]*") if Path("/proc/self/environ").exists() else ():
        with contextlib.suppress(OSError, ValueError):
            for item in (folder / "environ").read_bytes().split(b"\0"):
                name, _, value = item.partition(b"=")
                if name == MARK.encode() and wanted in value.split(b"/") and int(folder.name) != os.getpid():
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed += 1
    return killed
