"""The kernel's OOM killer as dmesg and journald print it.

Sources: mm/oom_kill.c: "Out of memory: Killed process N (name) total-vm:..", before 5.0 "Out of memory: Kill process
N (name) score S or sacrifice child" followed by "Killed process N (name) ..", "Memory cgroup out of memory: ..", and
the summary "oom-kill:constraint=..,task=name,pid=N,uid=U". systemd: "Main process exited, code=killed, status=9/KILL".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.model import Document, Position, ProcessExit

_KILLED = re.compile(r"\bKill(?:ed)? process (\d{1,10})(?: \(|,)")
_SUMMARY = re.compile(r"oom-kill:constraint=[^\n]{0,2000}?\bpid=(\d{1,10})")
_OOM = re.compile(r"[Oo]ut of memory:? [^\n]{0,200}?\bKill(?:ed)? process (\d{1,10})\b")
_REAPED = re.compile(r"oom_reaper: reaped process (\d{1,10})\b")
_SYSTEMD = re.compile(r"Main process exited, code=killed, status=9/KILL")
#: One kill is printed on several lines of one dump; the same pid further on is another process.
_ONE_DUMP = 400


def parse(document: Document) -> list[ProcessExit]:
    """Processes that the kernel killed (code -9, killer "kernel"), each once; a systemd unit's kill has no killer."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    seen: dict[int, int] = {}
    for index in indices:
        text = document.lines[index].text
        if _SYSTEMD.search(text):
            yield _exit(document, index, None, "")
            continue
        match = _OOM.search(text) or _SUMMARY.search(text) or _REAPED.search(text)
        if match is None and ("vm:" in text or "rss" in text):
            match = _KILLED.search(text)
        if match is None:
            continue
        pid = int(match[1])
        again = pid in seen and index - seen[pid] <= _ONE_DUMP
        seen[pid] = index
        if not again:
            yield _exit(document, index, pid, "kernel")


def _exit(document: Document, index: int, pid: int | None, killer: str) -> ProcessExit:
    return ProcessExit(
        code=-9,
        position=Position(document.index, index),
        quote=document.quote(index),
        pid=pid,
        killer=killer,
        launcher="kernel",
        time=document.lines[index].time,
    )


PRINTER = Printer(("kill process", "killed process", "oom-kill:", "reaped process", "status=9/kill"), _read)
_SCANNER = Scanner((PRINTER,))
