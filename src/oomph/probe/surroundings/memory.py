"""Main memory of this machine, and the limits on it. Sizes are bytes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from oomph.probe.host import limit_bytes
from oomph.probe.surroundings.seen import ROOT, Seen, Untold, first_line, read, under

#: Of /proc/PID/limits; "unlimited" is RLIM_INFINITY.
_LOCKED = re.compile(r"^Max locked memory\s+(unlimited|\d+)\s", re.MULTILINE)
_KEYS = {"MemTotal": "ram", "MemAvailable": "available", "SwapTotal": "swap", "SwapFree": "swap_free"}


def meminfo(root: Path = ROOT) -> dict[str, Seen[int]]:
    """The keys "ram", "available", "swap" and "swap_free", as far as /proc/meminfo tells them (its kB are 1024 bytes).
    In a container they are the machine's."""
    found = {}
    for line in (read(root, "/proc/meminfo") or "").splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if key in _KEYS and words and words[0].isdecimal():
            found[_KEYS[key]] = Seen(int(words[0]) * 1024, "/proc/meminfo", " ".join(line.split()))
    return found


def shared_memory(root: Path = ROOT) -> tuple[Seen[int], Seen[int]] | Untold:
    """The size of /dev/shm, and what of it is free."""
    try:
        found = os.statvfs(under(root, "/dev/shm"))  # noqa: S108 - looked at, not written to
    except (OSError, AttributeError):
        return Untold("there is no /dev/shm here")
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return Seen(size, "/dev/shm", f"{size} bytes"), Seen(free, "/dev/shm", f"{free} bytes free")  # noqa: S108


def cgroup_limit(root: Path = ROOT) -> Seen[int] | None:
    """What the control groups of this process allow; None where they set no limit (or none is told)."""
    limit = limit_bytes(under(root, "/proc"), under(root, "/sys/fs/cgroup"))
    return None if limit is None else Seen(limit, "/sys/fs/cgroup", f"{limit} bytes")


def locked_limit(root: Path = ROOT, pid: int | None = None) -> Seen[int] | Untold:
    """The limit of page-locked memory that holds for a process (None: this one); -1 where there is none."""
    place = f"/proc/{'self' if pid is None else pid}/limits"
    match = _LOCKED.search(read(root, place) or "")
    if not match:
        return Untold(f"{place} could not be read: `ulimit -l` tells the limit (in KiB)")
    return Seen(-1 if match[1] == "unlimited" else int(match[1]), place, " ".join(match[0].split()))


def vcpus(root: Path = ROOT) -> Seen[int] | Untold:
    """How many CPUs this machine has online; a container's or a job's own share of them may be less."""
    place = "/sys/devices/system/cpu/online"
    text = first_line(root, place)
    count = _counted(text)
    if count:
        return Seen(count, place, text)
    number = sum(line.startswith("processor") for line in (read(root, "/proc/cpuinfo") or "").splitlines())
    if number:
        return Seen(number, "/proc/cpuinfo", f"{number} processors")
    return Untold("neither /sys/devices/system/cpu nor /proc/cpuinfo is here: `nproc --all` tells the number")


def _counted(text: str) -> int:
    """How many numbers a list of ranges has: "0-3,8" five; 0 where it is none."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return 0
        count += int(last or first) - int(first) + 1
    return count
