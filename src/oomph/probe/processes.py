"""Processes of this host, by /proc: parents, children, names, resident memory. Everything is empty without /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
#: Longer chains of parents are a race between reading and dying, or a joke.
_DEPTH = 64
_NAME_CHARS = 80


def parent(pid: int, proc: Path = PROC) -> int | None:
    """The process that started it; None where that cannot be read."""
    fields = _stat(pid, proc)
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None


def _stat(pid: int, proc: Path) -> list[str]:
    """/proc/PID/stat from the third field (state) on: the second is a name, which may hold anything, in parentheses."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rfind(")") + 1 :].split()


def state(pid: int, proc: Path = PROC) -> str:
    """The letter of its state ("R", "S", "Z": it has ended, and nobody has asked how); "" where there is none."""
    fields = _stat(pid, proc)
    return fields[0] if fields else ""


def exists(pid: int, proc: Path = PROC) -> bool:
    """Whether this process sees a process of that number."""
    return (proc / str(pid)).is_dir()


def descends(pid: int, ancestors: frozenset[int], proc: Path = PROC) -> bool:
    """Whether the process is one of these, or was started by one, through any number of others."""
    one: int | None = pid
    for _ in range(_DEPTH):
        if one is None or one <= 0:
            return False
        if one in ancestors:
            return True
        one = parent(one, proc)
    return False


def family(pids: Iterable[int], proc: Path = PROC) -> tuple[int, ...]:
    """These processes that exist, and all that they started, sorted."""
    found = {pid for pid in pids if exists(pid, proc)}
    waiting = list(found)
    while waiting:
        children = _children(waiting.pop(), proc)
        if children is None:
            return tuple(sorted(_by_parents(found, proc)))
        new = [child for child in children if child not in found]
        found.update(new)
        waiting += new
    return tuple(sorted(found))


def _children(pid: int, proc: Path) -> list[int] | None:
    """By the kernel's own lists; None where it keeps none (CONFIG_PROC_CHILDREN)."""
    children: list[int] = []
    try:
        threads = [entry.name for entry in (proc / str(pid) / "task").iterdir()]
    except OSError:
        return []
    for thread in threads:
        try:
            text = (proc / str(pid) / "task" / thread / "children").read_text()
        except FileNotFoundError:
            if exists(pid, proc) and (proc / str(pid) / "task" / thread).is_dir():
                return None
            continue
        except OSError:
            continue
        children += [int(one) for one in text.split() if one.isdigit()]
    return children


def _by_parents(pids: set[int], proc: Path) -> set[int]:
    """The same by asking every process who started it."""
    try:
        names = [entry.name for entry in proc.iterdir()]
    except OSError:
        return pids
    parents = {int(name): parent(int(name), proc) for name in names if name.isdigit()}
    found = set(pids)
    grown = True
    while grown:
        new = {pid for pid, above in parents.items() if above in found and pid not in found}
        found |= new
        grown = bool(new)
    return found


def name(pid: int, proc: Path = PROC) -> str:
    """What it runs, without arguments, which may hold secrets: "python train.py", "python -m axolotl.cli.train"."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    words = [word for word in words if word]
    if not words:
        try:
            return (proc / str(pid) / "comm").read_text(errors="replace").strip()[:_NAME_CHARS]
        except OSError:
            return ""
    program = words[0].rpartition("/")[2]
    script = _script(words[1:]) if program.startswith("python") else ""
    return f"{program} {script}".strip()[:_NAME_CHARS]


def _script(words: list[str]) -> str:
    for place, word in enumerate(words):
        if word == "-m" and place + 1 < len(words):
            return f"-m {words[place + 1]}"
        if word == "-c":
            return ""
        if not word.startswith("-"):
            return word.rpartition("/")[2]
    return ""


def resident_bytes(pid: int, proc: Path = PROC) -> int | None:
    """Resident memory; None where it cannot be read. Pages that processes share count in each."""
    try:
        fields = (proc / str(pid) / "statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None
