"""The processes below this one: who they are, what they hold, and how all of them are ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping

#: prctl(2): orphaned descendants become children of this process.
_PR_SET_CHILD_SUBREAPER = 36
#: How long a killed process may stay (in a driver's call that cannot be interrupted) before it is given up.
_KILL_SECONDS = 20.0
_TURN_SECONDS = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_HAS_PROC = os.path.exists("/proc/self/stat")

#: pid -> (parent's pid, state, resident bytes).
Seen = Mapping[int, tuple[int, str, int]]


def become_subreaper() -> bool:
    """Whether orphans below this process become its children from now on (Linux: prctl(2))."""
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def processes() -> Seen:
    """Every process that can be seen: proc_pid_stat(5), or `ps`."""
    found = {}
    if _HAS_PROC:
        for name in os.listdir("/proc"):
            if name.isdigit():
                with (
                    contextlib.suppress(OSError, ValueError, IndexError),
                    open(f"/proc/{name}/stat", "rb") as file,
                ):
                    # The command's name stands in parentheses, and may hold spaces and parentheses itself.
                    fields = file.read().rpartition(b") ")[2].split()
                    found[int(name)] = (int(fields[1]), fields[0].decode(), int(fields[21]) * _PAGE_BYTES)
        return found
    listed = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,state=,rss="], capture_output=True, text=True, check=False
    )
    for line in listed.stdout.splitlines():
        row = line.split()
        if len(row) >= 4:
            found[int(row[0])] = (int(row[1]), row[2][:1], int(row[3]) * 1024)
    return found


def parent_of(pid: int) -> int | None:
    """The parent of a process, or None where that is not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b") ")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def descendants(root: int, seen: Seen | None = None) -> dict[int, int]:
    """pid -> resident bytes of the processes below `root` that still run (zombies do not)."""
    seen = processes() if seen is None else seen
    children: dict[int, list[int]] = {}
    for pid, (parent, _state, _bytes) in seen.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            waiting.append(pid)
            if seen[pid][1] not in ("Z", "X"):
                found[pid] = seen[pid][2]
    return found


def resident_bytes(limit_bytes: int) -> int:
    """What the processes below this one hold of main memory; exact where it is above the limit.

    The plain sum counts a page that several processes share once for each. Only where that passes the limit, each
    page is divided by those who share it ("proportional set size" of smaps_rollup), which takes longer to read.
    """
    tree = descendants(os.getpid())
    used = sum(tree.values())
    if used <= limit_bytes:
        return used
    total = 0
    for pid in tree:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith(b"Pss:")) * 1024
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        except (OSError, StopIteration, ValueError):
            return used
    return total or used


def kernel_kills() -> int | None:
    """How often the kernel has killed a process for want of main memory: in this control group, where that is told
    (memory.events of cgroup v2), else on this machine (/proc/vmstat)."""
    places = ["/proc/vmstat"]
    with contextlib.suppress(OSError, IndexError), open("/proc/self/cgroup", encoding="utf-8") as file:
        groups = [line.rstrip("\n").split(":", 2)[2] for line in file if line.startswith("0::")]
        places = [*(f"/sys/fs/cgroup{group}/memory.events" for group in groups), *places]
    for place in places:
        with contextlib.suppress(OSError, ValueError, IndexError), open(place, encoding="utf-8") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return None


def send(pids: Iterable[int], number: int) -> None:
    """Sends a signal to processes, as far as they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def reap(statuses: dict[int, int]) -> None:
    """Takes the status of every child that has ended, adopted ones too."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            statuses[pid] = status


def end_all(grace: float, statuses: dict[int, int]) -> tuple[int, int]:
    """Ends every process below this one: asked first, killed after `grace` seconds. How many there were, and how many
    of them could not be ended."""
    reap(statuses)
    there = len(descendants(os.getpid()))
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        left = set(descendants(os.getpid()))
        if not left:
            break
        send(left - asked, signal.SIGTERM)
        send(left - asked, signal.SIGCONT)  # a stopped process hears nothing else
        asked |= left
        time.sleep(_TURN_SECONDS)
        reap(statuses)
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        # Again and again: what is killed may have started another in between.
        left = set(descendants(os.getpid()))
        if not left or time.monotonic() > deadline:
            reap(statuses)
            return there, len(left)
        send(left, signal.SIGKILL)
        time.sleep(_TURN_SECONDS)
        reap(statuses)
