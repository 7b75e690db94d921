"""`nvidia-smi --query-gpu=... / --query-compute-apps=... --format=csv[,noheader][,nounits]`, once or in a loop.

Columns are known by their header line ("index, name, memory.used [MiB]") or, under `noheader`, by the command when a
shell echoed it; never by position alone. nvidia-smi prints used_memory as "used_gpu_memory". Sizes are MiB whether or
not the row says so. "[N/A]", "[Not Supported]" and the like are no values.

A GPU is known by its index, else by its UUID or bus (numbered in the order in which they first appear), else, with
time stamps, by its place in one burst of rows. A compute app's row often names no GPU: its `gpu` is -1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from oomph.evidence.model import Document, GpuProcess, GpuReading, Line
from oomph.evidence.tables.cells import MAX_CHARS, position, whole
from oomph.evidence.tables.clock import seconds
from oomph.units import Amount

_COLUMN = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+){0,4}(?: \[[^\],]{1,8}\])?")
_COMMAND = re.compile(r"--query-(?:gpu|compute-apps)[= ][\"']?([a-z0-9_.,]{3,400})")
_MEMORY = ("memory.used", "memory.total", "memory.free", "used_gpu_memory", "used_memory")
_SIZE = re.compile(r"([0-9]{1,9})(?: MiB)?")
_MISSING = re.compile(r"\[[A-Za-z/ ]{3,30}\]|N/A|-")
_BARE_APP = re.compile(r"([0-9]{2,10}), (\S[^|]{0,200}), ([0-9]{1,8}) MiB")
_BURST_SECONDS = 0.5


@dataclass
class _Query:
    """The columns of a running query, and which GPU the next row may belong to."""

    columns: list[str]
    start: int
    last: int
    known: dict[str, int] = field(default_factory=dict)
    burst: int = -1
    time: float | None = None
    rows: int = 0

    def of(self, cells: list[str], *names: str) -> str:
        for name in names:
            if name in self.columns:
                return cells[self.columns.index(name)]
        return ""


def parse_csv(document: Document) -> tuple[list[GpuReading], list[GpuProcess]]:
    """Readings per row and GPU, and compute apps, in the order of the text."""
    readings: list[GpuReading] = []
    processes: list[GpuProcess] = []
    queries: dict[str, _Query] = {}
    uuids: dict[str, int] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if "," not in text and "memory." not in text and (line.stream not in queries or not text.strip()):
            continue
        if len(text) > MAX_CHARS:
            continue
        columns = _columns(text)
        if columns:
            queries[line.stream] = _Query(columns, index, index)
            continue
        query = queries.get(line.stream)
        if query is None:
            processes.extend(_bare_app(document, index, text))
            continue
        cells = _cells(query, index, text)
        if cells is None:
            continue
        query.last, query.rows = index, query.rows + 1
        if "pid" in query.columns:
            process = _process(document, query, cells, index, uuids)
            processes.extend([process] if process is not None else [])
        else:
            reading = _reading(document, query, cells, index, line, uuids)
            readings.extend([reading] if reading is not None else [])
    return _identified(readings, queries), processes


def _columns(text: str) -> list[str]:
    """The column names of a header line or of an echoed command with `noheader`; empty for any other line."""
    if not any(name in text for name in _MEMORY):
        return []
    command = _COMMAND.search(text)
    if command is not None:
        names = command[1].strip(",").split(",")
        return names if "noheader" in text and any(name in _MEMORY for name in names) else []
    names = [cell.strip() for cell in text.split(",")]
    if not all(_COLUMN.fullmatch(name) for name in names):
        return []
    plain = [name.partition(" ")[0] for name in names]
    return plain if any(name in _MEMORY for name in plain) else []


def _cells(query: _Query, index: int, text: str) -> list[str] | None:
    """The cells of a row of this query, or None when the line is something else."""
    cells = [cell.strip() for cell in text.strip().split(",")]
    extra = len(cells) - len(query.columns)
    if extra > 0:
        name = "process_name" if "process_name" in query.columns else "name"
        if name not in query.columns or "pid" not in query.columns:
            return None
        at = query.columns.index(name)
        cells[at : at + extra + 1] = [", ".join(cells[at : at + extra + 1])]
    elif extra < 0:
        return None
    named = list(zip(query.columns, cells, strict=True))
    if not all(_fits(column, cell) for column, cell in named):
        return None
    with_unit = any(column in _MEMORY and cell.endswith("MiB") for column, cell in named)
    # Bare numbers are a row only directly beneath the rows before.
    if not with_unit and len(query.columns) < 3 and index != query.last + 1:
        return None
    return cells


def _fits(column: str, cell: str) -> bool:
    """Can `cell` stand in `column`? (Another line of the log with as many commas does not fit.)"""
    if _MISSING.fullmatch(cell) is not None:
        return True
    if column in _MEMORY:
        return _SIZE.fullmatch(cell) is not None
    if column in ("index", "pid"):
        return cell.isascii() and cell.isdigit() and len(cell) <= 10
    return column != "timestamp" or seconds(cell) is not None


def _size(cell: str) -> Amount | None:
    match = _SIZE.fullmatch(cell)
    return whole(match[1]) if match is not None else None


def _reading(
    document: Document, query: _Query, cells: list[str], index: int, line: Line, uuids: dict[str, int]
) -> GpuReading | None:
    time = seconds(query.of(cells, "timestamp"))
    gpu = _gpu(query, cells, time)
    uuid = query.of(cells, "uuid", "gpu_uuid")
    if uuid and gpu is not None:
        uuids[uuid] = gpu
    return GpuReading(
        gpu=-1 if gpu is None else gpu,
        name=query.of(cells, "name", "gpu_name"),
        used=_size(query.of(cells, "memory.used")),
        total=_size(query.of(cells, "memory.total")),
        free=_size(query.of(cells, "memory.free")),
        position=position(document, index),
        quote=document.quote(index),
        time=time if time is not None else line.time,
        driver=query.of(cells, "driver_version") or None,
    )


def _gpu(query: _Query, cells: list[str], time: float | None) -> int | None:
    index = query.of(cells, "index")
    if index:
        return int(index) if index.isascii() and index.isdigit() and len(index) < 5 else None
    identity = query.of(cells, "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
    if identity:
        return query.known.setdefault(identity, len(query.known))
    if time is not None:
        same = query.time is not None and 0 <= time - query.time < _BURST_SECONDS
        query.burst = query.burst + 1 if same else 0
        query.time = time
        return query.burst
    if "memory.used" not in query.columns and "memory.free" not in query.columns:
        return query.rows - 1  # name and size of each board, in nvidia-smi's order
    return None


def _identified(readings: list[GpuReading], queries: dict[str, _Query]) -> list[GpuReading]:
    """Without the rows whose GPU nobody can tell; a single row of an unnamed GPU stays, as GPU 0."""
    unknown = [reading for reading in readings if reading.gpu < 0]
    if len(unknown) == 1 and all(query.rows <= 1 for query in queries.values()):
        only = unknown[0]
        readings = [replace(one, gpu=0) if one is only else one for one in readings]
    return [reading for reading in readings if reading.gpu >= 0]


def _process(
    document: Document, query: _Query, cells: list[str], index: int, uuids: dict[str, int]
) -> GpuProcess | None:
    pid = query.of(cells, "pid")
    if not (pid.isascii() and pid.isdigit()):
        return None
    uuid = query.of(cells, "gpu_uuid", "uuid")
    return GpuProcess(
        gpu=uuids.get(uuid, -1),
        pid=int(pid),
        name=query.of(cells, "process_name", "name"),
        used=_size(query.of(cells, "used_gpu_memory", "used_memory")),
        quote=document.quote(index),
    )


def _bare_app(document: Document, index: int, text: str) -> list[GpuProcess]:
    """A compute app's row without its header: "152615, /usr/local/bin/worker, 5303 MiB" can be nothing else."""
    if "MiB" not in text:
        return []
    match = _BARE_APP.fullmatch(text.strip())
    if match is None or "MiB" in match[2]:
        return []
    return [GpuProcess(-1, int(match[1]), match[2], whole(match[3]), document.quote(index))]
