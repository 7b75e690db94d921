"""The GPU_mem column of Ultralytics YOLO and YOLOv5.

"      26/99      23.4G      0.033      0.027      0.011        147       1280: 100%|...". The value is
`torch.cuda.memory_reserved()`; releases divided by 1E9 and later by 2**30, so the slack covers both. 26/99 is the
epoch, which is not a step.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample, Position
from oomph.evidence.series.amounts import loose
from oomph.evidence.series.scan import Scan

_ROW = re.compile(
    r"\s*[0-9]{1,6}/[0-9]{1,6}\s{1,20}([0-9]{1,6}(?:\.[0-9]{1,3})?)G"
    r"(?:\s{1,20}[0-9]{1,9}(?:\.[0-9]{1,9})?){3}"
)


def read(scan: Scan) -> list[MemorySample]:
    """One sample (reserved) per row or progress update."""
    found: list[MemorySample] = []
    document = scan.document
    for line in scan.candidates:
        if "G  " not in line.text:
            continue
        match = _ROW.match(line.text)
        value = loose(match[1], "G") if match is not None else None
        if value is None:
            continue
        source = document.lines[line.index]
        found.append(
            MemorySample(
                what="reserved",
                value=value,
                position=Position(document.index, line.index),
                quote=document.quote(line.index),
                rank=source.rank if source.rank is not None else document.rank,
                time=source.time,
                printer="ultralytics",
                context="train",
            )
        )
    return found
