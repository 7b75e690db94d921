"""AMD's amd-smi.

- The table of `amd-smi` (ROCm 7): two rows per GPU, the second with "283/196592 MB" in the Mem-Usage column; MB is
  2**20 (an MI300X shows 196592 of its 206,141,652,992 bytes).
- `amd-smi monitor` with VRAM: columns "VRAM_USED VRAM_TOTAL" ("283 MB  196300 MB") or "VRAM_USAGE"
  ("23.6/ 24.0 GB", that number of MB / 1024).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.evidence.model import Document, GpuReading, Line
from oomph.evidence.tables.cells import MAX_CHARS, position, whole
from oomph.units import Amount, amount

_TABLE_USAGE = re.compile(
    r"\|\s{1,6}([0-9]{1,3})\s{1,12}\S{1,6}\s{1,12}\S{1,6}\s{1,20}\S{1,16}\s{1,4}\|"
    r"[^|]{1,60}?\s([0-9]{1,9})/([0-9]{1,9}) MB\s{0,4}\|"
)
_TABLE_NAME = re.compile(
    r"\|\s{0,4}[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\s{1,30}(\S[^|]{0,50}?)\s{0,10}\|"
)
_TWO_COLUMNS = re.compile(r"\s*([0-9]{1,3})\s.{0,300}?\s([0-9]{1,9}) MB\s{1,12}([0-9]{1,9}) MB(?:\s.{0,60})?")
_ONE_COLUMN = re.compile(
    r"\s*([0-9]{1,3})\s.{0,300}?\s([0-9]{1,6}\.[0-9])/\s{0,4}([0-9]{1,6}\.[0-9]) GB(?:\s.{0,60})?"
)


@dataclass
class _State:
    monitor: str = ""
    table: bool = False
    name: str = ""


def parse_amd(document: Document) -> list[GpuReading]:
    """A reading per GPU and report."""
    found: list[GpuReading] = []
    states: dict[str, _State] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if len(text) > MAX_CHARS:
            continue
        if "AMD-SMI" in text or "VRAM_US" in text:
            state = states.setdefault(line.stream, _State())
            state.table = state.table or "AMD-SMI" in text
            if "VRAM_US" in text:
                two = "VRAM_USED" in text and "VRAM_TOTAL" in text
                state.monitor = "two" if two else "one" if "VRAM_USAGE" in text else ""
            continue
        row = states.get(line.stream)
        if row is None:
            continue
        if row.table and "|" in text:
            found.extend(_table_row(document, row, index, line))
        elif row.monitor and "B" in text:
            found.extend(_monitor_row(document, row.monitor, index, line))
    return found


def _table_row(document: Document, state: _State, index: int, line: Line) -> list[GpuReading]:
    name = _TABLE_NAME.match(line.text.strip())
    if name is not None:
        state.name = name[1].strip()
        return []
    match = _TABLE_USAGE.search(line.text)
    if match is None:
        return []
    used, total = whole(match[2]), whole(match[3])
    return [_make(document, index, line, int(match[1]), state.name, used, total)]


def _monitor_row(document: Document, columns: str, index: int, line: Line) -> list[GpuReading]:
    match = (_TWO_COLUMNS if columns == "two" else _ONE_COLUMN).fullmatch(line.text)
    if match is None:
        return []
    if columns == "two":
        used, total = whole(match[2]), whole(match[3])
    else:
        used, total = amount(match[2], "GiB"), amount(match[3], "GiB")
    return [_make(document, index, line, int(match[1]), "", used, total)]


def _make(
    document: Document,
    index: int,
    line: Line,
    gpu: int,
    name: str,
    used: Amount | None,
    total: Amount | None,
) -> GpuReading:
    return GpuReading(
        gpu, name, used, total, None, position(document, index), document.quote(index), line.time
    )
