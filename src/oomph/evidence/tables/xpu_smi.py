"""Intel's xpu-smi.

- `xpu-smi dump -m 18,...`: CSV under "Timestamp, DeviceId, ..., GPU Memory Used (MiB)", read by header.
- `xpu-smi stats -d N`: a two-column table with "| Device ID | 0 |" and "| GPU Memory Used (MiB) | 24 |".
"""

from __future__ import annotations

import re

from oomph.evidence.model import Document, GpuReading
from oomph.evidence.tables.cells import MAX_CHARS, position
from oomph.evidence.tables.clock import seconds
from oomph.units import Amount, amount

_USED = "gpu memory used (mib)"
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,4})?")
_STATS_DEVICE = re.compile(r"\|\s{0,4}Device ID\s{0,30}\|\s{0,4}([0-9]{1,4})\s{0,100}\|")
_STATS_USED = re.compile(
    r"\|\s{0,4}GPU Memory Used \(MiB\)\s{0,30}\|\s{0,4}([0-9]{1,9}(?:\.[0-9]{1,4})?)(?![0-9.])"
)


def parse_xpu(document: Document) -> list[GpuReading]:
    """A reading (used only: the tool prints no total) per row of a dump or per stats table."""
    found: list[GpuReading] = []
    headers: dict[str, list[str]] = {}
    devices: dict[str, int] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if len(text) > MAX_CHARS:
            continue
        if "Memory Used" in text or "Device ID" in text:
            names = [cell.strip().lower() for cell in text.split(",")]
            if _USED in names and "deviceid" in names:
                headers[line.stream] = names
                continue
            device = _STATS_DEVICE.search(text)
            if device is not None:
                devices[line.stream] = int(device[1])
            used = _STATS_USED.search(text)
            if used is not None and line.stream in devices:
                found.append(_make(document, index, devices[line.stream], amount(used[1], "MiB"), line.time))
        elif "," in text and line.stream in headers:
            found.extend(_row(document, index, headers[line.stream], text))
    return found


def _row(document: Document, index: int, names: list[str], text: str) -> list[GpuReading]:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(names):
        return []
    row = dict(zip(names, cells, strict=True))
    time = seconds(row.get("timestamp", ""))
    device = row["deviceid"]
    if time is None or not re.fullmatch(r"[0-9]{1,4}", device) or not _NUMBER.fullmatch(row[_USED]):
        return []
    return [_make(document, index, int(device), amount(row[_USED], "MiB"), time)]


def _make(document: Document, index: int, gpu: int, used: Amount | None, time: float | None) -> GpuReading:
    return GpuReading(gpu, "", used, None, None, position(document, index), document.quote(index), time)
