"""Ray's words for dead workers and actors.

Ray lists SIGKILL among the "potential root causes" of every lost worker; that is not a statement, so such an exit
has no code. The memory monitor's kill is one: killer "launcher".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.model import Document, Position, ProcessExit

_LOST = re.compile(
    r"A worker died or was killed while executing|The actor is dead because its worker process has died|"
    r"The actor died unexpectedly before finishing|[Ww]orker\b[^\n]{0,200}\bdied unexpectedly|"
    r"Worker exit type: SYSTEM_ERROR"
)
_MONITOR = re.compile(r"Ray killed this worker|Task was killed due to the node running low on memory")
_PID = re.compile(r"(?:Worker PID: ?|\bpid[=:] ?)(\d{1,10})")
_ADDRESS = re.compile(r"(?:IP address: ?|\bip[=:] ?)([\d.]{7,15})\b")
_CODE = re.compile(r"killed by SIGKILL|exit code (-?\d{1,5})")
_CAUSES = "potential root causes"
#: An exception's fields (class_name, pid, ip) follow on their own lines.
_NEAR = 12


def parse(document: Document) -> list[ProcessExit]:
    """Workers that Ray reports as dead, each message once."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    last = -_NEAR - 1
    for index in indices:
        text = document.lines[index].text
        monitor = _MONITOR.search(text)
        if monitor is None and _LOST.search(text) is None:
            continue
        if 0 <= index - last <= _NEAR:
            continue
        last = index
        block = [text, *(line.text for line in document.lines[index + 1 : index + 1 + _NEAR])]
        yield ProcessExit(
            code=None if monitor else _code(text),
            position=Position(document.index, index),
            quote=document.quote(index),
            pid=_first_number(_PID, block),
            host=_first(_ADDRESS, block),
            killer="launcher" if monitor else "",
            launcher="ray",
            time=document.lines[index].time,
        )


def _code(text: str) -> int | None:
    match = _CODE.search(text.partition(_CAUSES)[0])
    if match is None:
        return None
    return int(match[1]) if match[1] else -9


def _first(pattern: re.Pattern[str], block: Sequence[str]) -> str | None:
    for text in block:
        match = pattern.search(text)
        if match:
            return match[1]
    return None


def _first_number(pattern: re.Pattern[str], block: Sequence[str]) -> int | None:
    text = _first(pattern, block)
    return int(text) if text else None


PRINTER = Printer(
    (
        "a worker died",
        "actor is dead",
        "actor died",
        "died unexpectedly",
        "worker exit type",
        "ray killed this worker",
        "task was killed due to",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
