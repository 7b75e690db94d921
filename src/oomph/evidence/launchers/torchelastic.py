"""torchrun's (and accelerate's) agent: its error table, the "failed (exitcode: ..)" line, the signals it sends.

The table's layout is from torch/distributed/elastic/multiprocessing/errors/__init__.py: since 1.10 "Failures:" then
"Root Cause (first observed failure):"; in 1.9 "Root Cause:" then "Other Failures:". With @record an entry carries
the child's whole traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import exit_code, signal_code, stamp
from oomph.evidence.lines.clock import parse_clock
from oomph.evidence.model import Document, Position, ProcessExit

_FAILED = re.compile(r"failed \(exitcode: (-?\d{1,10})\) local_rank: (\d{1,6}) \(pid: (\d{1,10})\)")
_CLOSING = re.compile(r"Sending process (\d{1,10}) closing signal (?:Signals\.)?(\w{1,10})")
_FORCED = re.compile(
    r"Unable to shutdown process (\d{1,10}) via (?:Signals\.)?\w{1,10}, forcefully exiting via (?:Signals\.)?(\w{1,10})"
)
_GOT = re.compile(r"Process (\d{1,10}) got signal: (?:Signals\.)?(\w{1,10})")
_HEADER = re.compile(r"[\s*|│=>]*(Root Cause(?: \(first observed failure\))?|(?:Other )?Failures):[\s*|│]*$")
_ENTRY = re.compile(r"[\s*|│>]*\[(\d{1,6})\]:[\s*|│]*$")
_FIELD = re.compile(r"[\s*|│>]*(time|host|rank|exitcode|error_file|traceback|msg) *: *([^\n]*)$")
_RULE = re.compile(r"[\s|│>]*(?:={10,}|\*{10,})[\s|│]*$")
_RANK = re.compile(r"(\d{1,6})(?: +\(local_rank: *(\d{1,6})\))?")
_EXIT = re.compile(r"(-?\d{1,10}) *\(pid: *(-?\d{1,10})\)")
#: An entry's traceback may be long; without any field for this many lines the table has been lost.
_LONGEST_ENTRY = 3_000


def parse(document: Document) -> list[ProcessExit]:
    """Exits that the agent reports; the root-cause entry of each table has `root` set."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    done = -1
    for index in indices:
        text = document.lines[index].text
        yield from _line(document, index, text)
        if index > done and _HEADER.match(text):
            table = _Table(document, document.lines[index].stream)
            done = table.read(index)
            yield from table.exits


def _line(document: Document, index: int, text: str) -> Iterable[ProcessExit]:
    position = Position(document.index, index)
    quote = document.quote(index)
    time = stamp(document, index)
    match = _FAILED.search(text)
    if match:
        yield ProcessExit(
            code=int(match[1]),
            position=position,
            quote=quote,
            local_rank=int(match[2]),
            pid=int(match[3]),
            launcher="torchrun",
            time=time,
        )
    for pattern, killer in ((_CLOSING, "launcher"), (_FORCED, "launcher"), (_GOT, "")):
        match = pattern.search(text)
        if match:
            yield ProcessExit(
                code=signal_code(match[2]),
                position=position,
                quote=quote,
                pid=int(match[1]),
                killer=killer,
                launcher="torchrun",
                time=time,
            )


class _Table:
    """Reads one error table line by line; lines of other streams in between are passed over."""

    def __init__(self, document: Document, stream: str) -> None:
        self._document = document
        self._stream = stream
        self._root = False
        self._fields: dict[str, str] = {}
        self._at = 0
        self.exits: list[ProcessExit] = []

    def read(self, start: int) -> int:
        """Reads from the header at `start`; returns the index of the last line that belongs to the table."""
        lines = self._document.lines
        last = start
        for index in range(start, len(lines)):
            line = lines[index]
            if line.stream != self._stream:
                continue
            if self._feed(index, line.text):
                last = index
            elif (_RULE.match(line.text) and self._root and self._fields) or index - last > _LONGEST_ENTRY:
                break
        self._flush()
        return last

    def _feed(self, index: int, text: str) -> bool:
        if ":" not in text:
            return False
        header = _HEADER.match(text)
        if header:
            self._flush()
            self._root = header[1].startswith("Root")
            return True
        if _ENTRY.match(text):
            self._flush()
            return True
        field = _FIELD.match(text)
        if field is None:
            return False
        if field[1] in self._fields:
            self._flush()
        self._fields[field[1]] = field[2].strip(" *|│")
        if field[1] == "exitcode" or "exitcode" not in self._fields:
            self._at = index
        return True

    def _flush(self) -> None:
        fields, self._fields = self._fields, {}
        code = _EXIT.match(fields.get("exitcode", ""))
        rank = _RANK.match(fields.get("rank", ""))
        if code is None:
            return
        pid = exit_code(code[2])
        self.exits.append(
            ProcessExit(
                code=int(code[1]),
                position=Position(self._document.index, self._at),
                quote=self._document.quote(self._at),
                rank=int(rank[1]) if rank else None,
                local_rank=int(rank[2]) if rank and rank[2] else None,
                pid=pid if pid is not None and pid > 0 else None,
                host=fields.get("host") or None,
                root=self._root,
                launcher="torchrun",
                time=parse_clock(fields.get("time", "")),
            )
        )


PRINTER = Printer(
    ("(exitcode:", "closing signal", "forcefully exiting via", "got signal:", "root cause", "failures:"),
    _read,
)
_SCANNER = Scanner((PRINTER,))
