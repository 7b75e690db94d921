"""gpustat: "[0] NVIDIA A100 | 45'C,  30 % | 12345 / 40960 MB | alice:python/4242(11696M)". MB and M are 2**20.

Processes are read where their pid is printed (`-p`); the part before a colon is the user.
"""

from __future__ import annotations

import re

from oomph.evidence.model import Document, GpuProcess, GpuReading
from oomph.evidence.tables.cells import MAX_CHARS, position, whole

_ROW = re.compile(
    r"\[([0-9]{1,3})\] (\S[^|]{0,60}?)\s{0,30}\|[^|]{0,60}%[^|]{0,40}\|"
    r"\s{0,12}([0-9]{1,8}) /\s{0,8}([0-9]{1,8}) MB\s{0,4}(?:\||\Z)"
)
_PROCESS = re.compile(r"(?:^|\s)(?:[\w.-]{1,40}:)?([^\s/(]{1,60})/([0-9]{1,10})\(([0-9]{1,8}|\?)M\)")


def parse_gpustat(document: Document) -> tuple[list[GpuReading], list[GpuProcess]]:
    """A reading per row, and the row's processes."""
    readings: list[GpuReading] = []
    processes: list[GpuProcess] = []
    for index, line in enumerate(document.lines):
        text = line.text
        if " MB" not in text or "|" not in text or len(text) > MAX_CHARS:
            continue
        match = _ROW.search(text)
        if match is None:
            continue
        gpu = int(match[1])
        readings.append(
            GpuReading(
                gpu=gpu,
                name=match[2].strip(),
                used=whole(match[3]),
                total=whole(match[4]),
                free=None,
                position=position(document, index),
                quote=document.quote(index),
                time=line.time,
            )
        )
        for process in _PROCESS.finditer(text, match.end()):
            used = whole(process[3])
            processes.append(GpuProcess(gpu, int(process[2]), process[1], used, document.quote(index)))
    return readings, processes
