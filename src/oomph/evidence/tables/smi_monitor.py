"""`nvidia-smi dmon` and `nvidia-smi pmon` with memory (-s m): columns under "# gpu ... fb ..." headers.

The column set changes with the driver and the options, so a row is read by the last header; the header is repeated.
`fb` is the framebuffer in use, in MiB although the header says MB. "-" is no value.
"""

from __future__ import annotations

from oomph.evidence.model import Document, GpuProcess, GpuReading, Line
from oomph.evidence.tables.cells import MAX_CHARS, position, whole
from oomph.evidence.tables.clock import seconds


def parse_monitor(document: Document) -> tuple[list[GpuReading], list[GpuProcess]]:
    """A reading per dmon row, a process per pmon row."""
    readings: list[GpuReading] = []
    processes: list[GpuProcess] = []
    headers: dict[str, list[str]] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if len(text) > MAX_CHARS:
            continue
        if text.lstrip().startswith("#"):
            columns = text.replace("#", " ").lower().split()
            if "gpu" in columns:
                headers[line.stream] = columns if "fb" in columns else []
            continue
        columns = headers.get(line.stream) or []
        if not columns:
            continue
        cells = text.split()
        row = _row(columns, cells)
        if row is None:
            continue
        if "pid" in row:
            processes.extend(_process(document, index, row))
        else:
            readings.extend(_reading(document, index, line, row))
    return readings, processes


def _row(columns: list[str], cells: list[str]) -> dict[str, str] | None:
    """The cells by column; None unless every column but names and clocks holds a number or a dash."""
    if len(cells) != len(columns) and not ("command" in columns and len(cells) > len(columns)):
        return None
    row = dict(zip(columns, cells, strict=False))
    if not (_is_number(row["gpu"]) and (_is_number(row["fb"]) or row["fb"] == "-")):
        return None
    for column, cell in row.items():
        if column in ("command", "type", "date", "time"):
            continue
        if not (_is_number(cell) or cell == "-"):
            return None
    if "command" in columns:
        row["command"] = " ".join(cells[len(columns) - 1 :])
    return row


def _is_number(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= 10


def _reading(document: Document, index: int, line: Line, row: dict[str, str]) -> list[GpuReading]:
    used = whole(row["fb"])
    if used is None or int(row["gpu"]) > 9999:
        return []
    time = seconds(" ".join(row[part] for part in ("date", "time") if part in row))
    return [
        GpuReading(
            gpu=int(row["gpu"]),
            name="",
            used=used,
            total=None,
            free=None,
            position=position(document, index),
            quote=document.quote(index),
            time=time if time is not None else line.time,
        )
    ]


def _process(document: Document, index: int, row: dict[str, str]) -> list[GpuProcess]:
    if not _is_number(row["pid"]):
        return []
    used = whole(row["fb"])
    return [GpuProcess(int(row["gpu"]), int(row["pid"]), row.get("command", ""), used, document.quote(index))]
