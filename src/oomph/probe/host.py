"""Main memory: of this process and of this host. What a system does not tell is None."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from oomph.probe import processes
from oomph.probe.model import Host

#: cgroup v1 says "no limit" with the largest multiple of a page that fits; anything of this order means the same.
_NO_LIMIT_BYTES = 1 << 60
_MEMINFO_LINES = 6
_SHM = Path("/dev/shm")  # noqa: S108 - looked at, not written to
_CGROUPS = Path("/sys/fs/cgroup")


def host(
    pids: Sequence[int] = (),
    *,
    proc: Path = processes.PROC,
    cgroups: Path = _CGROUPS,
    shm: Path = _SHM,
) -> Host:
    """A reading. With `pids`, resident memory is theirs and their children's, else this process's own, and `children`
    counts the processes beyond the first."""
    family = processes.family(pids, proc) if pids else (os.getpid(),)
    sizes = [size for pid in family if (size := processes.resident_bytes(pid, proc)) is not None]
    total, available = _meminfo(proc)
    return Host(
        rss_bytes=sum(sizes) if sizes else None,
        pinned_bytes=pinned_bytes(),
        total_bytes=total,
        available_bytes=available,
        shm_free_bytes=_free(shm),
        cgroup_limit_bytes=limit_bytes(proc, cgroups),
        children=max(len(sizes) - 1, 0),
    )


def pinned_bytes() -> int | None:
    """Page-locked memory that PyTorch's host allocator holds in this process, in use or not. Imports nothing, and does
    not initialize CUDA."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None:
        return None
    try:
        if not cuda.is_initialized():
            return None
        found = cuda.host_memory_stats().get("allocated_bytes.current")
    except (AttributeError, RuntimeError, AssertionError):
        return None
    return None if found is None else int(found)


def _meminfo(proc: Path) -> tuple[int | None, int | None]:
    found: dict[str, int] = {}
    try:
        with (proc / "meminfo").open() as lines:
            for _, line in zip(range(_MEMINFO_LINES), lines, strict=False):
                key, _, rest = line.partition(":")
                words = rest.split()
                if words and words[0].isdecimal():
                    found[key] = int(words[0]) * 1024
    except OSError:
        pass
    return found.get("MemTotal"), found.get("MemAvailable")


def _free(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return found.f_bavail * found.f_frsize


def limit_bytes(proc: Path = processes.PROC, cgroups: Path = _CGROUPS) -> int | None:
    """The least memory limit of the control groups that this process is in (version 1 or 2); None without one."""
    try:
        lines = (proc / "self" / "cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return None
    limits: list[int] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            limits += _upwards(cgroups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _upwards(cgroups / "memory", path, "memory.limit_in_bytes")
    return min(limits, default=None)


def _upwards(root: Path, path: str, file: str) -> list[int]:
    """The limits of a group and of those above it. Inside a container the path is often the host's, and only the root
    is there."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    found: list[int] = []
    for count in range(len(parts), -1, -1):
        try:
            text = root.joinpath(*parts[:count], file).read_text(errors="replace").strip()
        except (OSError, ValueError):  # a name of a group may hold anything
            continue
        if text.isdecimal() and int(text) < _NO_LIMIT_BYTES:
            found.append(int(text))
    return found
