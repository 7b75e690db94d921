"""torchtune's metric lines and its memory report.

"Step 1 | loss:1.2 ... peak_memory_active:12.3 peak_memory_alloc:12.2 peak_memory_reserved:13.1" (StdoutLogger and
DiskLogger, no unit: GiB; early releases divided by 10**9, so the slack covers that) and
"GPU peak memory allocation: 6.21 GiB" / "GPU peak memory reserved: 6.27 GiB" (training/memory.py). Active bytes are
neither allocated nor reserved and are left out.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import loose, scaled_loose
from oomph.evidence.series.scan import Scan
from oomph.units import GIB

_WHAT = {
    "alloc": "max_allocated",
    "reserved": "max_reserved",
    "allocation": "max_allocated",
}
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,20})?)"
_METRIC = re.compile(rf"(?<!\w)peak_memory_(alloc|reserved)['\"]?: ?{_NUMBER}(?![0-9.eE])")
_REPORT = re.compile(rf"GPU peak memory (allocation|alloc|reserved): {_NUMBER} ?([KMGT]i?B)\b")


def read(scan: Scan) -> list[MemorySample]:
    """Samples of both forms, in the order of the text."""
    found: list[MemorySample] = []
    for line in scan.having("peak_memory_", "gpu peak memory"):
        for match in _METRIC.finditer(line.text):
            value = scaled_loose(match[2], GIB, 10**9)
            if value is not None:
                found.append(scan.sample(line, _WHAT[match[1]], value, "torchtune"))
        for match in _REPORT.finditer(line.text):
            value = loose(match[2], match[3])
            if value is not None:
                found.append(scan.sample(line, _WHAT[match[1]], value, "torchtune"))
    return found
