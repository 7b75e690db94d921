"""Runs one command within its limits, and leaves nothing of it behind: a program of its own, of the standard library.

    python -I -S supervise.py FOLDER/task.json

Engines start it: as a process here, in a Slurm job, in a Ray task. `task.json` has the command, the working directory,
the limits and the mark; the environment is the supervisor's own. What the command prints goes to FOLDER/out.txt and
err.txt, how it ended to FOLDER/ended.json.

On Linux the supervisor is the reaper of all that descends from it (PR_SET_CHILD_SUBREAPER, prctl(2)): a process that is
forked twice becomes its child, and is found however it names itself. Elsewhere the command's process group is all that
can be known. It ends the command when it is sent SIGTERM or SIGINT, and when whoever started it is gone.

    whoever started it -> guard -> supervisor -> the command, in a session of its own

The guard is there because the supervisor can be killed (Ray kills the children of a worker that it ends): if the guard
is, the supervisor ends the command, and if the supervisor is, the guard does.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

TASK, ENDED, OUT, ERR, TEMPORARY = "task.json", "ended.json", "out.txt", "err.txt", "tmp"
#: The variable by which every process of a trial is known, besides by its descent.
MARK = "OOMPH_TRIAL"
#: How long processes have to end by themselves after SIGTERM, and how long SIGKILL is repeated.
GRACE_SECONDS, KILL_SECONDS = 4.0, 20.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_TICK_SECONDS, _SIZES_SECONDS = 0.05, 0.5
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells say it
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def processes() -> dict[int, int]:
    """Every living process and its parent, by /proc; empty where there is none."""
    found: dict[int, int] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib takes a millisecond to import
    except OSError:
        return found
    for name in names:
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def descendants(root: int) -> list[int]:
    """Every living process that descends from `root`, which is not among them."""
    children: dict[int, list[int]] = {}
    for pid, parent in processes().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


def marked(mark: str) -> list[int]:
    """Living processes that began with this mark in their environment; others' environments cannot be read."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            if wanted in file.read().split(b"\0"):
                found.append(pid)
    return found


def resident_bytes(pids: list[int]) -> int:
    """Main memory that the processes hold, what they share counted once for each (an upper bound)."""
    size = 0
    for pid in pids:
        statm = f"/proc/{pid}/statm"
        with contextlib.suppress(OSError, ValueError, IndexError), open(statm, "rb") as file:  # noqa: PTH123
            size += int(file.read().split()[1]) * _PAGE
    return size


def proportional_bytes(pids: list[int]) -> int:
    """The same with shared pages divided among those that share them (Pss of smaps_rollup, proc(5)); the resident
    size of a process that does not tell."""
    size = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
                line = next(line for line in file if line.startswith(b"Pss:"))
            size += int(line.split()[1]) << 10
        except (OSError, ValueError, IndexError, StopIteration):
            size += resident_bytes([pid])
    return size


def folder_bytes(folder: str) -> int:
    """What the folder takes of its disk; a file that is deleted and still open is not seen."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(place, name))  # noqa: PTH118
                size += getattr(status, "st_blocks", -(-status.st_size // 512)) * 512
    return size


def free_bytes(folder: str) -> int | None:
    """What the disk of the folder has left for this user; None where that cannot be asked."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


class Supervisor:
    """One command. `stopped` and `why` say which limit ended it."""

    def __init__(self, folder: str, task: dict[str, object], guard: int) -> None:
        self.folder = folder
        self.task = task
        self.stopped, self.why = "", ""
        self._guard = guard
        self._child: subprocess.Popen[bytes] | None = None
        self._asked = False
        self._reaper = _become_reaper()

    def limit(self, name: str) -> float | None:
        """A limit of the task's; None where there is none."""
        value = self.task.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    def ask_to_stop(self, *_: object) -> None:
        """A signal has come."""
        self._asked = True

    def run(self) -> dict[str, object]:
        """The whole life of the command; what ended.json says."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.ask_to_stop)
        began = time.monotonic()
        temporary = os.path.join(self.folder, TEMPORARY)  # noqa: PTH118
        code: int | None = None
        try:
            os.makedirs(temporary, exist_ok=True)  # noqa: PTH103
            code = self._start(temporary)
            if code is None:
                code = self._watch(began)
        except OSError as error:
            self.stopped = "disk" if error.errno in (28, 122) else ""  # ENOSPC, EDQUOT
            self.why = f"it could not be started: {error.strerror or error}"
            code = _NOT_EXECUTABLE
        finally:
            left = self._end_all()
            shutil.rmtree(temporary, ignore_errors=True)
        if left:
            self.why += (
                f"{'; ' if self.why else ''}{len(left)} of its processes could not be ended: {left[:5]}"
            )
        return {
            "exit_code": code,
            "stopped": self.stopped,
            "why": self.why,
            "seconds": time.monotonic() - began,
        }

    def _start(self, temporary: str) -> int | None:
        """Starts the command; an exit code where that cannot be done."""
        environment = {
            **os.environ,
            MARK: str(self.task["mark"]),
            **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temporary),
        }
        command = [str(word) for word in self.task["command"]]  # type: ignore[attr-defined]
        out_name, err_name = (os.path.join(self.folder, name) for name in (OUT, ERR))  # noqa: PTH118
        with open(out_name, "wb") as out, open(err_name, "wb") as err:  # noqa: PTH123
            try:
                self._child = subprocess.Popen(  # noqa: S603 - the user's own command
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=str(self.task["working_directory"]),
                    env=environment,
                    start_new_session=True,
                )
            except FileNotFoundError:
                self.why = f"{command[0]}: command not found"
                return _NOT_FOUND
            except (PermissionError, OSError, ValueError) as error:
                self.why = f"{command[0]}: cannot be run ({getattr(error, 'strerror', None) or error})"
                return _NOT_EXECUTABLE
        return None

    def _watch(self, began: float) -> int | None:
        """Until the command ends, or has to be ended. The exit code, negative where a signal ended it; None where it
        was not waited for."""
        assert self._child is not None
        seconds = self.limit("seconds")
        next_sizes = 0.0
        while True:
            code = self._child.poll()
            if code is not None:
                if os.getppid() != self._guard:
                    # Whoever lost its guard may have ended the command by its mark: that end says nothing.
                    self.stopped = "cancelled"
                return code
            _reap(self._child.pid)
            now = time.monotonic()
            if self._asked or os.getppid() != self._guard:
                self.stopped = "cancelled"
            elif seconds is not None and now - began > seconds:
                self.stopped, self.why = "seconds", f"{seconds:g} s were over"
            elif now >= next_sizes:
                self._look_at_sizes()
                next_sizes = time.monotonic() + _SIZES_SECONDS
            if self.stopped:
                return None
            time.sleep(_TICK_SECONDS)

    def _look_at_sizes(self) -> None:
        most = self.limit("memory_bytes")
        if most is not None:
            pids = descendants(os.getpid())
            if resident_bytes(pids) > most:
                size = proportional_bytes(pids)
                if size > most:
                    self.stopped = "memory"
                    self.why = f"its processes held {size} bytes of main memory, {int(most)} were allowed"
                    return
        most = self.limit("disk_bytes")
        if most is not None:
            size = folder_bytes(self.folder)
            if size > most:
                self.stopped, self.why = "disk", f"its folder held {size} bytes, {int(most)} were allowed"
                return
        least = self.limit("free_disk_bytes")
        if least is not None:
            free = free_bytes(self.folder)
            if free is not None and free < least:
                self.stopped = "disk"
                self.why = f"the disk had {free} bytes left, {int(least)} have to stay free"

    # -- the end ---------------------------------------------------------------------------------------------------

    def _living(self) -> list[int]:
        if self._child is not None:
            self._child.poll()
            _reap(self._child.pid)
        return descendants(os.getpid()) if self._reaper else []

    def _end_all(self) -> list[int]:
        """SIGTERM to all, then SIGKILL until none is left. Those that will not die (in the kernel, for a file server)
        come back."""
        if self._child is None:
            return []
        for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            told: set[int] = set()
            until = time.monotonic() + seconds
            for pause in _pauses():
                living = self._living()
                if not living and self._child.poll() is not None:
                    if not self._reaper:
                        _signal_group(self._child.pid, number)
                    break
                # SIGKILL is repeated: a process may have forked in between. SIGTERM comes once: a second one may
                # break off what a first one began (torchrun ends its workers).
                again = number == signal.SIGKILL
                for pid in living:
                    if again or pid not in told:
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, number)
                        told.add(pid)
                if not living:
                    _signal_group(self._child.pid, number)
                if time.monotonic() > until:
                    break
                time.sleep(pause)
        return self._living()


def _pauses() -> Iterator[float]:
    pause = 0.01
    while True:
        yield pause
        pause = min(pause * 1.5, 0.2)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _become_reaper() -> bool:
    """Whether orphans come to this process: only Linux has that."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _reap(but: int) -> None:
    """Takes the status of orphans that have ended. The command's own is left to whoever started it."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except (ChildProcessError, AttributeError):
            return
        if found is None or found.si_pid == but:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def write_ended(folder: str, ended: dict[str, object]) -> None:
    """Writes ended.json in one step."""
    path = os.path.join(folder, ENDED)  # noqa: PTH118
    with open(f"{path}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(ended, file)
    os.replace(f"{path}.part", path)  # noqa: PTH105


def main(name: str) -> int:
    """The exit code says only whether the supervisor did its work."""
    _become_reaper()
    guard = os.getpid()
    supervisor = os.fork()
    if supervisor:
        return _guard(supervisor)
    try:
        code = _supervise(name, guard)
    except Exception as error:  # noqa: BLE001 - told, and nothing of a half-started interpreter is run twice
        sys.stderr.write(f"oomph: {name}: {error!r}\n")
        code = 1
    os._exit(code)


def _guard(supervisor: int) -> int:
    """Waits for the supervisor, hands on what it is told, and ends what a killed one has left."""
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: _send(supervisor, number))
    while True:
        pid, status = os.waitpid(supervisor, os.WNOHANG)
        if pid:
            break
        if parent != os.getppid():
            parent = os.getppid()
            _send(supervisor, signal.SIGTERM)
        time.sleep(_TICK_SECONDS)
    until = time.monotonic() + KILL_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < until:
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(_TICK_SECONDS)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _supervise(name: str, guard: int) -> int:
    folder = os.path.dirname(os.path.abspath(name))  # noqa: PTH100, PTH120
    with open(name, encoding="utf-8") as file:  # noqa: PTH123
        task = json.load(file)
    ended = Supervisor(folder, task, guard).run()
    try:
        write_ended(folder, ended)
    except OSError as error:
        sys.stderr.write(f"oomph: {ENDED}: {error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
