"""What NVML and nvidia-smi say of processes on a GPU, made into `Process`es: names, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from oomph.probe import processes
from oomph.probe.model import Process

#: What a list of processes without any means where memory is in use: a GPU alone keeps less than this for itself.
_IDLE_BYTES = 1 << 30

_UNTOLD = "the driver does not tell the bytes of each process"
_HIDDEN = (
    "memory is in use, and the driver names no process: inside a container it shows none of those outside, and often "
    "not its own"
)
_OTHER_NUMBERS = (
    "some processes cannot be seen from here (from inside a container, mostly): whose they are is not known"
)


def listed(
    found: Iterable[tuple[int, int | None, str]], ours: Sequence[int], proc: Path = processes.PROC
) -> tuple[Process, ...]:
    """The processes (number, bytes, name as the driver has it), one for each number, by number."""
    own = frozenset(ours)
    sizes: dict[int, int | None] = {}
    names: dict[int, str] = {}
    for pid, size, name in found:
        before = sizes.get(pid)
        # A process that computes and draws is listed twice with the same bytes.
        sizes[pid] = size if before is None else max(before, size or 0)
        names[pid] = names.get(pid) or name
    return tuple(
        Process(
            pid=pid,
            used_bytes=sizes[pid],
            name=processes.name(pid, proc) or names[pid],
            ours=bool(own) and processes.descends(pid, own, proc),
        )
        for pid in sorted(sizes)
    )


def unread(found: Sequence[Process], used_bytes: int | None, proc: Path = processes.PROC) -> str:
    """What these processes do not tell, in a sentence; "" where nothing is missing."""
    reasons = []
    if not found and used_bytes is not None and used_bytes > _IDLE_BYTES:
        reasons.append(_HIDDEN)
    if any([one.used_bytes is None for one in found]):
        reasons.append(_UNTOLD)
    if proc.is_dir() and any([not processes.exists(one.pid, proc) for one in found]):
        reasons.append(_OTHER_NUMBERS)
    return "; ".join(reasons)
