"""The clauses of the allocator's message, read one behind the other.

Numbers are taken only as long as clause follows clause: what stands behind the message (a next log line that says
"42 MiB free") is another text. Between clauses only the message's own filler may stand, or, on the same line, words
without digits (forks and future releases add some).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oomph.evidence.messages.pieces import SIZE
from oomph.evidence.model import ProcessUse
from oomph.units import Amount, amount

_UNIT = r"(?:GPU|XPU|NPU|MUSA|MLU|GCU|HPU|device)"
_CLAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("device", re.compile(rf"\(?{_UNIT}(\d{{0,4}})(?:;|(?=hasatotal))")),
    ("capacity_bytes", re.compile(rf"(?:hasatotalcapaci?tyof{SIZE}|{SIZE}totalcapacity)")),
    ("free_bytes", re.compile(rf"(?:ofwhich{SIZE}isfree|{SIZE}free(?=[;.)]|$))")),
    ("process", re.compile(rf"Process(\d{{1,10}})has{SIZE}memoryinuse")),
    ("process_bytes", re.compile(rf"(?:Includingnon-PyTorchmemory,)?thisprocesshas{SIZE}memoryinuse")),
    ("allowed_bytes", re.compile(rf"{SIZE}allowed(?=;|\.|$)")),
    (
        "allocated_bytes",
        re.compile(rf"(?:Oftheallocatedmemory{SIZE}isallocatedbyPyTorch|{SIZE}alreadyallocated)"),
    ),
    ("private_pool_bytes", re.compile(rf"with{SIZE}allocatedinprivatepools(?:\(e\.g\.,\w{{2,8}}Graphs\))?")),
    (
        "unallocated_bytes",
        re.compile(rf"(?:and{SIZE}isreservedbyPyTorchbutunallocated|{SIZE}cached(?=\)|$))"),
    ),
    ("reserved_bytes", re.compile(rf"{SIZE}reservedintotal(?:byPyTorch)?")),
    ("", re.compile(rf"{SIZE}currentactive")),
)
#: A clause around something that is no size: negative, not a number, or longer than any size.
_NO_SIZE = re.compile(
    r"(?:ofwhich|hasatotalcapaci?tyof|(?:Includingnon-PyTorchmemory,)?thisprocesshas|Oftheallocatedmemory|and|with)?"
    r"(?=-\d|nan|inf|\d{17})[-\d.,naif]{1,5000}(?:bytes|[KMGT]i?B)"
    r"(?:isfree|totalcapacity|memoryinuse|isallocatedbyPyTorch|isreservedbyPyTorchbutunallocated|alreadyallocated|free|"
    r"cached|allowed|reservedintotalbyPyTorch)?"
)
_FILLER = re.compile(r"[().;,]+")
_WORDS = re.compile(r"[^\d\s]{1,80}?(?=\d|Process\d|GPU\d|ofwhich\d|with\d|and\d)")


@dataclass
class Reading:
    """What the clauses say. `end` is the offset behind the last clause."""

    end: int
    numbers: dict[str, Amount] = field(default_factory=dict)
    processes: list[ProcessUse] = field(default_factory=list)
    artefacts: list[str] = field(default_factory=list)
    device: int | None = None
    seen: set[str] = field(default_factory=set)


def read_clauses(text: str, start: int, limit: int, line_end: int) -> Reading:
    """Reads clauses of `text` from `start`, no further than `limit`. `line_end` is where the line of the request
    ends: unknown words are skipped only before it."""
    reading = Reading(start)
    at = start
    while at < limit:
        step = _clause(text, at, limit, reading)
        if step is not None:
            at = reading.end = step
            continue
        filler = _FILLER.match(text, at, limit)
        if filler is not None:
            at = filler.end()
            continue
        damaged = _NO_SIZE.match(text, at, limit)
        if damaged is not None:
            reading.artefacts.append("damaged_size")
            at = reading.end = damaged.end()
            continue
        words = _WORDS.match(text, at, min(limit, line_end))
        if words is None or _clause(text, words.end(), limit, Reading(0)) is None:
            break
        at = words.end()
    if reading.processes:
        used = [use.used for use in reading.processes if use.used is not None]
        if used:
            total = Amount(sum(one.bytes for one in used), sum(one.slack_bytes for one in used))
            reading.numbers["other_process_bytes"] = total
    return reading


def _clause(text: str, at: int, limit: int, reading: Reading) -> int | None:
    for name, pattern in _CLAUSES:
        match = pattern.match(text, at, limit)
        if match is None:
            continue
        if name == "device":
            reading.device = int(match[1]) if match[1] else None
            reading.seen.add("device" if match[1] else "blank_device")
        elif name == "process":
            used = amount(match[2], match[3])
            reading.processes.append(ProcessUse(int(match[1]), used))
            if used is None:
                reading.artefacts.append("nvml_2_64")
        elif name:
            if name in reading.seen:
                return None
            reading.seen.add(name)
            _number(name, match, reading)
        return match.end()
    return None


def _number(name: str, match: re.Match[str], reading: Reading) -> None:
    groups = [group for group in match.groups() if group]
    size = amount(groups[0], groups[1])
    if size is None:
        reading.artefacts.append("nvml_2_64")
        return
    if name == "process_bytes" and size.bytes == 0:
        reading.artefacts.append("process_0_bytes")
    reading.numbers[name] = size
