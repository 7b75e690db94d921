"""LitGPT's (and Lit-LLaMA's) last line: "Memory used: 21.30 GB".

It is the peak of allocated bytes / 1e9, so GB is decimal here. Other programs print the same words; the line counts
as LitGPT's only beneath its "Training time: ...s" or "... tokens/sec" line. Otherwise `generic` decides.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import scaled
from oomph.evidence.series.scan import Scan

_LINE = re.compile(r"(?:.{0,80}\s)?Memory used: ([0-9]{1,6}\.[0-9]{2}) GB\s*\Z")
_BEFORE = ("Training time: ", "tokens/sec", "Bandwidth achieved: ")


def read(scan: Scan) -> list[MemorySample]:
    """One sample (max_allocated) at the end of a run."""
    found: list[MemorySample] = []
    lines = scan.document.lines
    for line in scan.having("memory used: "):
        match = _LINE.match(line.text)
        if match is None:
            continue
        before = lines[max(0, line.index - 3) : line.index]
        if not any(mark in earlier.text for earlier in before for mark in _BEFORE):
            continue
        value = scaled(match[1], 10**9)
        if value is not None:
            found.append(scan.sample(line, "max_allocated", value, "litgpt"))
    return found
