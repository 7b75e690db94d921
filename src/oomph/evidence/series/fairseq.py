"""fairseq's `gb_free` metric.

`gb_free` = total memory - peak of allocated bytes, both / 1024**3, rounded to one digit (trainer.py). The total is
printed at the start: "rank   0: capabilities =  7.0  ; total memory = 15.752 GB ; name = ...". Without that line the
number says nothing about allocated bytes and gives no sample.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import exact
from oomph.evidence.series.scan import Scan
from oomph.units import Amount

_TOTAL = re.compile(
    r"rank\s{1,6}([0-9]{1,6}): capabilities =[^;]{1,20}; total memory = ([0-9]{1,6}(?:\.[0-9]{1,6})?) GB"
)
_FREE = re.compile(r"(?<!\w)[\"']?gb_free[\"']?[ :=]{1,3}[\"']?([0-9]{1,6}(?:\.[0-9]{1,6})?)(?![0-9.])")
_UPDATES = re.compile(r"(?<!\w)[\"']?num_updates[\"']?[ :=]{1,3}[\"']?([0-9]{1,12})(?![0-9.])")


def read(scan: Scan) -> list[MemorySample]:
    """max_allocated = total - gb_free, with the total of the lowest rank that was listed (rank 0 logs)."""
    found: list[MemorySample] = []
    total: Amount | None = None
    lowest: int | None = None
    for line in scan.having("total memory =", "gb_free"):
        listed = _TOTAL.search(line.text)
        if listed is not None and (lowest is None or int(listed[1]) <= lowest):
            total, lowest = exact(listed[2], "GB"), int(listed[1])
        free_text = _FREE.search(line.text)
        free = exact(free_text[1], "GB") if free_text is not None else None
        if free is None or total is None or free.bytes > total.bytes:
            continue
        peak = Amount(total.bytes - free.bytes, total.slack_bytes + free.slack_bytes)
        updates = _UPDATES.search(line.text)
        step = int(updates[1]) if updates is not None else None
        found.append(scan.sample(line, "max_allocated", peak, "fairseq", step=step, total=total))
    return found
