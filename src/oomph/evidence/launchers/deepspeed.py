"""DeepSpeed's launcher (deepspeed/launcher/launch.py) and the pdsh that it uses across nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import exit_code, stamp
from oomph.evidence.model import Document, Position, ProcessExit

_KILLING = re.compile(r"Killing subprocess (\d{1,10})\b")
_RETURN = re.compile(r"exits with return code = (-?\d{1,10})")
_SUCCESS = re.compile(r"\bProcess (\d{1,10}) exits successfully")
_LOCAL = re.compile(r"--local[_-]rank(?:=|['\"]?,? ['\"]?)(\d{1,6})")
_PDSH = re.compile(r"pdsh@\S{1,80}: (\S{1,80}): ssh exited with exit code (\d{1,5})")


def parse(document: Document) -> list[ProcessExit]:
    """Exits that DeepSpeed's launcher reports. What it kills ("Killing subprocess N") has no code of its own."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    for index in indices:
        found = _one(document, index)
        if found:
            yield found


def _one(document: Document, index: int) -> ProcessExit | None:
    text = document.lines[index].text
    code: int | None = None
    pid: int | None = None
    local: int | None = None
    host: str | None = None
    killer = ""
    match = _KILLING.search(text)
    if match:
        pid, killer = int(match[1]), "launcher"
    elif match := _SUCCESS.search(text):
        pid, code = int(match[1]), 0
    elif match := _PDSH.search(text):
        host, code = match[1], int(match[2])
    elif match := _RETURN.search(text):
        code = exit_code(match[1])
        ranks = _LOCAL.findall(text, 0, match.start())
        local = int(ranks[-1]) if ranks else None
    else:
        return None
    return ProcessExit(
        code=code,
        position=Position(document.index, index),
        quote=document.quote(index),
        local_rank=local,
        pid=pid,
        host=host,
        killer=killer,
        launcher="deepspeed",
        time=stamp(document, index),
    )


PRINTER = Printer(
    ("killing subprocess", "exits with return code", "exits successfully", "ssh exited with exit code"), _read
)
_SCANNER = Scanner((PRINTER,))
