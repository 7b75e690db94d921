"""Printed torch.cuda.memory_stats(): reprs of its dict or OrderedDict, pretty-printed dicts, JSON, "key: value" lines.

Keys and values stay as printed: "allocated_bytes.all.peak" -> bytes, "num_ooms" -> a count. A dict may run over many
lines; a key that comes again starts the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oomph.evidence.model import Document, SummaryTable
from oomph.evidence.tables.cells import position
from oomph.units import Amount

_KEY = (
    r"(?:allocation|segment|active|inactive_split|allocated_bytes|reserved_bytes|active_bytes|inactive_split_bytes"
    r"|requested_bytes)\.(?:all|large_pool|small_pool)\.(?:current|peak|allocated|freed)"
    r"|oversize_(?:allocations|segments)\.(?:current|peak|allocated|freed)"
    r"|num_alloc_retries|num_ooms|num_oom_rejections|num_sync_all_streams|num_device_alloc|num_device_free"
    r"|max_split_size"
)
_PAIR = re.compile(
    rf"(?<![\w./])['\"]?({_KEY})['\"]?\s{{0,40}}[:=,]\s{{0,40}}['\"]?([0-9]{{1,19}})(?:\.0)?(?![\w.])"
)
_MARKS = ("_bytes.", ".current", ".peak", ".allocated", ".freed", "num_", "max_split_size")
_DEVICE = re.compile(r"(?:cuda:|device[ =:]{1,2}|GPU )([0-9]{1,3})(?![0-9.])")

#: One dict has about 70 keys; pretty-printed, one per line, with lines of other writers between.
_PATIENCE = 30


@dataclass
class _Open:
    start: int
    last: int
    device: int | None
    values: dict[str, Amount] = field(default_factory=dict)


def parse_stats(document: Document) -> list[SummaryTable]:
    """Every print of memory_stats() that shows a size in bytes (a lone counter is not a print of it)."""
    tables: list[_Open] = []
    current: dict[str, _Open] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if not any(mark in text for mark in _MARKS):
            continue
        for match in _PAIR.finditer(text):
            table = current.get(line.stream)
            if table is None or match[1] in table.values or index - table.last > _PATIENCE:
                table = _Open(index, index, _device(document, index))
                current[line.stream] = table
                tables.append(table)
            table.last = index
            value = int(match[2])
            if value < 2**63:
                table.values[match[1]] = Amount(value)
    return [
        SummaryTable(
            device=table.device,
            values=table.values,
            position=position(document, table.start),
            quote=document.quote(table.start),
        )
        for table in tables
        if any("bytes" in key for key in table.values)
    ]


def _device(document: Document, index: int) -> int | None:
    """The device that the line of the print's beginning, or the line before it, names."""
    for near in (index, index - 1):
        if near >= 0:
            match = _DEVICE.search(document.lines[near].text[:300])
            if match is not None:
                return int(match[1])
    return None
