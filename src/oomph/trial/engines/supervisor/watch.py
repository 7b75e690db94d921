"""One command with its limits."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import time
from typing import Any

from oomph.trial.engines.supervisor.streams import Streams
from oomph.trial.engines.supervisor.tree import end_all, kernel_kills, parent_of, reap, resident_bytes

#: How often the limits are looked at, in seconds.
LOOK_SECONDS = 0.2
#: How long processes that a command left behind have to end when they are asked to, in seconds.
_LEFT_SECONDS = 1.0
#: As shells have it: the command was not found, or could not be run.
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126

Ended = dict[str, Any]


class Watch:
    """Starts the command of `spec` and waits for its end. `wake` becomes readable when a signal comes; a byte in it is
    the signal's number."""

    def __init__(self, spec: dict[str, Any], wake: int) -> None:
        self._spec = spec
        self._limits: dict[str, Any] = spec["limits"]
        self._wake = wake
        self._began = time.monotonic()
        self._statuses: dict[int, int] = {}
        self._pid = 0
        self._looked = self._disk_seconds = 0.0

    def run(self) -> Ended:
        """How the command ended: exit_code, stopped, why, seconds."""
        guard, kills = os.getppid(), kernel_kills()
        try:
            streams = Streams(self._spec["folder"])
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return self._ended(None, "disk" if full else "lost", f"{self._spec['folder']}: {error.strerror}")
        failure = self._start(streams)
        if failure is not None:
            streams.close()
            return failure
        stopped = why = ""
        while not stopped and self._pid not in self._statuses:
            stopped, why = self._told()
            if not stopped:
                stopped, why = self._alone(guard) or self._passed(streams)
            reap(self._statuses)
        over = self._pid in self._statuses
        number, left = end_all(_LEFT_SECONDS if over else self._spec["grace"], self._statuses)
        streams.close()
        if over and stopped != "cancelled":
            stopped, why = self._by_itself(kills)
            if number and not why:
                why = f"{number} processes that it left running were ended"
        if left:
            why = f"{why}; {left} of its processes could not be killed".lstrip("; ")
        return self._ended(self._exit_code(), stopped, why)

    def _by_itself(self, kills: int | None) -> tuple[str, str]:
        now = kernel_kills()
        if kills is None or now is None or now <= kills:
            return "", ""
        killed = self._exit_code() == 128 + signal.SIGKILL
        return "memory" if killed else "", "the kernel killed a process for want of main memory meanwhile"

    def _start(self, streams: Streams) -> Ended | None:
        command, folder = self._spec["command"], self._spec["working_directory"]
        try:
            child = subprocess.Popen(  # noqa: S603 - the command is the user's
                command,
                stdin=subprocess.DEVNULL,
                stdout=streams.files[0],
                stderr=streams.files[1],
                cwd=folder,
                env=self._spec["environment"],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            if not os.path.isdir(folder):
                return self._ended(_NOT_EXECUTABLE, "", f"{folder}: no such folder")
            if isinstance(error, (FileNotFoundError, NotADirectoryError)):
                return self._ended(_NOT_FOUND, "", f"{command[0]}: command not found")
            reason = getattr(error, "strerror", None) or str(error)
            return self._ended(_NOT_EXECUTABLE, "", f"{command[0]}: cannot be run ({reason})")
        self._pid = child.pid
        child.returncode = 0  # its status is taken by `reap`, with all others
        return None

    def _told(self) -> tuple[str, str]:
        """Waits for a word from outside, a signal, or the time to look again."""
        ready, _, _ = select.select([0, self._wake], [], [], LOOK_SECONDS)
        if self._wake in ready and signal.SIGTERM in os.read(self._wake, 4096):
            return "lost", "the process that watched it was told to end"
        if 0 in ready:
            if os.read(0, 4096):
                return "cancelled", ""
            return "lost", "the process that ran it ended"
        return "", ""

    def _alone(self, guard: int) -> tuple[str, str] | None:
        """Whether the guard, or the process that ran it, has gone."""
        if os.getppid() != guard:
            return "lost", "the process that guarded it was killed"
        # The pipe tells the same, unless a process that the runner had forked has kept its other end open.
        if parent_of(guard) not in (self._spec["runner"], None):
            return "lost", "the process that ran it ended"
        return None

    def _passed(self, streams: Streams) -> tuple[str, str]:
        """The limit that is passed by now."""
        now = time.monotonic()
        seconds, memory = self._limits.get("seconds"), self._limits.get("memory_bytes")
        if seconds is not None and now - self._began > seconds:
            return "seconds", f"it was not over after {seconds:g} s"
        if memory is not None:
            used = resident_bytes(memory)
            if used > memory:
                return "memory", f"its processes held {used} bytes of main memory; {memory} are allowed"
        # A large folder takes long to add up: never more than a tenth of the time.
        if now - self._looked > max(LOOK_SECONDS, 10 * self._disk_seconds):
            self._looked = now
            streams.thin()
            found = self._full()
            self._disk_seconds = time.monotonic() - now
            return found
        return "", ""

    def _full(self) -> tuple[str, str]:
        allowed: int | None = self._limits.get("disk_bytes")
        floor: int | None = self._limits.get("free_disk_bytes")
        if allowed is not None:
            used = folder_bytes(self._spec["folder"])
            if used > allowed:
                return "disk", f"its folder held {used} bytes; {allowed} are allowed"
        for place in (self._spec["folder"], self._spec["working_directory"]):
            with contextlib.suppress(OSError):
                state = os.statvfs(place)
                free = state.f_bavail * state.f_frsize
                if floor is not None and free < floor:
                    return "disk", f"{free} bytes were left free on the disk; {floor} have to stay free"
        return "", ""

    def _exit_code(self) -> int | None:
        status = self._statuses.get(self._pid)
        if status is None:
            return None
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _ended(self, code: int | None, stopped: str = "", why: str = "") -> Ended:
        return {
            "exit_code": code,
            "stopped": stopped,
            "why": why,
            "seconds": time.monotonic() - self._began,
        }


def folder_bytes(folder: str) -> int:
    """What the files of a folder occupy on the disk (their blocks: holes do not count). Links are not followed."""
    total, waiting = 0, [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
