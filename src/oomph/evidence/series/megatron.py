"""Megatron-LM's (and NeMo's, Megatron-DeepSpeed's) `report_memory`.

"[Rank 0] (after 1 iterations) memory (MB) | allocated: 1234.5 | max allocated: ... | reserved: ... | max reserved:
..." (megatron/training/utils.py). MB is 1024*1024 bytes. Ranks write at once, so one line may hold two reports; each
report names its rank.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import scaled
from oomph.evidence.series.scan import Candidate, Scan
from oomph.units import MIB

_HEAD = re.compile(
    r"(?:\[Rank ([0-9]{1,6})\] )?(?:\(after ([0-9]{1,12}) iterations\) )?memory \(MB\) \|", re.IGNORECASE
)
_FIGURE = re.compile(
    r"\| (allocated|max allocated|reserved|max reserved|cached|max cached): ([0-9]{1,12}(?:\.[0-9]{1,20})?)"
)
_WHAT = {
    "allocated": "allocated",
    "max allocated": "max_allocated",
    "reserved": "reserved",
    "max reserved": "max_reserved",
    "cached": "reserved",
    "max cached": "max_reserved",
}


def read(scan: Scan) -> list[MemorySample]:
    """Four samples per report, with the rank and the iteration that the report names."""
    found: list[MemorySample] = []
    for line in scan.having("memory (mb) |"):
        found.extend(_reports(scan, line))
    return found


def _reports(scan: Scan, line: Candidate) -> list[MemorySample]:
    heads = list(_HEAD.finditer(line.text))
    found: list[MemorySample] = []
    for position, head in enumerate(heads):
        end = heads[position + 1].start() if position + 1 < len(heads) else len(line.text)
        for match in _FIGURE.finditer(line.text, head.end() - 1, end):
            value = scaled(match[2], MIB)
            if value is None:
                continue
            found.append(
                scan.sample(
                    line,
                    _WHAT[match[1]],
                    value,
                    "megatron",
                    rank=int(head[1]) if head[1] else None,
                    step=int(head[2]) if head[2] else None,
                )
            )
    return found
