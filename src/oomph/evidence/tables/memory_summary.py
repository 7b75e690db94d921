"""torch.cuda.memory_summary() tables.

Source of the format: torch/cuda/memory.py. Numbers are floor-divided to the unit of their column (a value printed as
`21401 MiB` lies in [21401, 21402) MiB), so each is given as the middle of that range with half a unit of slack;
"B" and counts without K or M are exact. Before torch 1.13 the units read KB, MB, GB and mean the same. A table may
have a log prefix in front of each line, may be abbreviated (no pool rows) or cut off anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from oomph.evidence.model import Document, SummaryTable
from oomph.evidence.tables.cells import MAX_CHARS, position
from oomph.units import GIB, KIB, MIB, TIB, Amount

_ROWS = {
    "allocated memory": "allocated_bytes",
    "active memory": "active_bytes",
    "requested memory": "requested_bytes",
    "gpu reserved memory": "reserved_bytes",
    "non-releasable memory": "inactive_split_bytes",
    "allocations": "allocation",
    "active allocs": "active",
    "gpu reserved segments": "segment",
    "non-releasable allocs": "inactive_split",
    "oversize allocations": "oversize_allocations",
    "oversize gpu segments": "oversize_segments",
}
_POOLS = {"from large pool": "large_pool", "from small pool": "small_pool"}
_COLUMNS = ("current", "peak", "allocated", "freed")
_BYTES = {"b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB, "pib": TIB * 1024}
_BYTES |= {"kb": KIB, "mb": MIB, "gb": GIB, "tb": TIB, "pb": TIB * 1024}
_COUNTS = {"": 1, "k": 1000, "m": 1_000_000}

_TITLE = re.compile(r"PyTorch (?:CUDA|XPU|ROCm|HIP) memory summary, device ID ([0-9]{1,4})(?![0-9])")
_EVENTS = re.compile(r"(?:CUDA|XPU|HIP) OOMs: ([0-9]{1,12})(?: {1,20}\|[^|]{0,60}retries: ([0-9]{1,12}))?")
_CELL = re.compile(r"([0-9]{1,18}) {0,2}([A-Za-z]{0,3})")
_MARKS = (
    "memory summary",
    "OOMs: ",
    "llocat",
    "emory",
    "pool",
    "alloc",
    "segments",
    "|==",
    "| Metric",
    "Cur Usage",
)

#: So many lines of other writers may stand between two rows of a table.
_PATIENCE = 40


@dataclass
class _Table:
    start: int
    device: int | None
    last: int
    values: dict[str, Amount] = field(default_factory=dict)
    row: str = ""


def parse_summaries(document: Document) -> list[SummaryTable]:
    """Every memory_summary() table of the document that has at least one readable row."""
    found: list[SummaryTable] = []
    open_tables: dict[str, _Table] = {}  # ranks print at once: one table per stream
    for index, line in enumerate(document.lines):
        text = line.text
        if "|" not in text or len(text) > MAX_CHARS or not any(mark in text for mark in _MARKS):
            continue
        table = open_tables.get(line.stream)
        if table is not None and index - table.last > _PATIENCE:
            found.extend(_closed(document, open_tables.pop(line.stream)))
            table = None
        title = _TITLE.search(text)
        again = table is not None and bool(table.row) and _header(text)  # the next table, its title lost
        if title is not None or again or (table is None and _header(text)):
            if table is not None:
                found.extend(_closed(document, table))
            open_tables[line.stream] = _Table(index, int(title[1]) if title is not None else None, index)
        elif table is None:
            continue
        elif _read_line(table, text):
            table.last = index
    for table in open_tables.values():
        found.extend(_closed(document, table))
    found.sort(key=lambda table: table.position)
    return found


def _header(text: str) -> bool:
    """The header row: enough to start a table whose title was cut off."""
    return "Metric" in text and "Cur Usage" in text and "Peak Usage" in text


def _closed(document: Document, table: _Table) -> Iterator[SummaryTable]:
    if table.values:
        yield SummaryTable(
            device=table.device,
            values=table.values,
            position=position(document, table.start),
            quote=document.quote(table.start),
        )


def _read_line(table: _Table, text: str) -> bool:
    events = _EVENTS.search(text)
    if events is not None:
        table.values.setdefault("num_ooms", Amount(int(events[1])))
        if events[2]:
            table.values.setdefault("num_alloc_retries", Amount(int(events[2])))
        return True
    if _header(text):
        return True
    return _read_row(table, text)


def _read_row(table: _Table, text: str) -> bool:
    cells = [cell.strip() for cell in text.split("|")]
    for place, cell in enumerate(cells):
        name = cell.lower()
        if name in _ROWS:
            table.row, pool = _ROWS[name], "all"
        elif name in _POOLS and table.row:
            pool = _POOLS[name]
        else:
            continue
        # Oversize rows have no pools: memory_stats() calls them "oversize_allocations.current".
        prefix = table.row if table.row.startswith("oversize") else f"{table.row}.{pool}"
        count = not table.row.endswith("bytes")
        # A cell counts only when its closing bar is there: a line cut off inside a number gives none.
        for column, printed in zip(_COLUMNS, cells[place + 1 : len(cells) - 1], strict=False):
            value = _cell(printed, count=count)
            if value is not None:
                table.values.setdefault(f"{prefix}.{column}", value)
        return True
    return False


def _cell(printed: str, *, count: bool) -> Amount | None:
    match = _CELL.fullmatch(printed)
    if match is None:
        return None
    unit = (_COUNTS if count else _BYTES).get(match[2].lower())
    if unit is None:
        return None
    low = int(match[1]) * unit
    return Amount(low + unit // 2, unit // 2) if low < 2**62 else None
