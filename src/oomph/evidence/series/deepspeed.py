"""DeepSpeed's own figures.

- `see_memory_usage` (deepspeed/runtime/utils.py), a line "MA 2.51 GB  Max_MA 2.51 GB  CA 2.6 GB  Max_CA 3 GB" and a
  line "CPU Virtual Memory:  used = 241.11 GB, percent = 96.0%". Max_CA is rounded to whole units by the printer.
- The throughput timer (deepspeed/utils/timer.py): "MemAllocated=8.82GB, MaxMemAllocated=22.66GB".

Both divide by 1024**3 and print "GB".
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import exact
from oomph.evidence.series.scan import Scan

_WHAT = {
    "ma": "allocated",
    "max_ma": "max_allocated",
    "ca": "reserved",
    "max_ca": "max_reserved",
    "memallocated": "allocated",
    "maxmemallocated": "max_allocated",
}
_FIGURE = re.compile(
    r"(?<!\w)(MA|Max_MA|CA|Max_CA)\s{1,40}([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([KMGT]i?B)\b"
    r"|(?<!\w)(MemAllocated|MaxMemAllocated)=([0-9]{1,9}(?:\.[0-9]{1,6})?)([KMGT]i?B)\b"
)
_HOST = re.compile(r"CPU Virtual Memory:\s{0,4}used = ([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([KMGT]i?B)\b")


def read(scan: Scan) -> list[MemorySample]:
    """Samples of both printers, in the order of the text."""
    found: list[MemorySample] = []
    for line in scan.having("max_ma", "memallocated=", "cpu virtual memory"):
        for match in _FIGURE.finditer(line.text):
            label, number, unit = match.group(1, 2, 3) if match[1] else match.group(4, 5, 6)
            value = exact(number, unit)
            if value is not None:
                found.append(scan.sample(line, _WHAT[label.lower()], value, "deepspeed"))
        host = _HOST.search(line.text)
        if host is not None:
            value = exact(host[1], host[2])
            if value is not None:
                found.append(scan.sample(line, "host_used", value, "deepspeed"))
    return found
