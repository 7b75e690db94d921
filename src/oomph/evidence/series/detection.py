"""Vision toolboxes that print the peak of allocated bytes as a bare number of MB (2**20).

- detectron2 (utils/events.py): "... iter: 19  total_loss: 48.00  lr: 1e-4  max_mem: 13822M".
- mmcv, mmengine (logger hooks): "Epoch [1][50/1000] lr: 1.0e-04, eta: ..., time: ..., data_time: ..., memory: 13822,
  loss: 0.1"; the number is floor-divided. It has no unit, so the line must look like this hook's.
- the MetricLogger of torchvision's references (DETR, DINO, MAE and many others): "Epoch: [0]  [100/5000]  eta: ...
  loss: ...  time: ...  data: ...  max mem: 4053".
- Swin Transformer and its descendants: "Train: [0/300][10/1251]  eta 0:10:12 lr 0.000001 ... mem 9876MB".
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import scaled
from oomph.evidence.series.scan import Scan
from oomph.units import MIB, Amount

_DETECTRON2 = re.compile(r"(?<!\w)max_mem: ([0-9]{1,9})M\b")
_MM = re.compile(r"(?<!\w)memory: ([0-9]{1,9})(?=,|\s|\Z)")
_METRIC_LOGGER = re.compile(r"(?<!\w)max mem: ([0-9]{1,9})\s*\Z")
_SWIN = re.compile(r"(?<!\w)[mM]em ([0-9]{1,9})MB\b")


def read(scan: Scan) -> list[MemorySample]:
    """One sample (max_allocated) per line."""
    found: list[MemorySample] = []
    for line in scan.having("mem"):
        lower = line.lower
        if "max_mem: " in lower:
            match, printer = _DETECTRON2.search(line.text), "detectron2"
        elif "memory: " in lower and "data_time: " in lower:
            match, printer = _MM.search(line.text), "mmengine"
        elif "max mem: " in lower:
            match, printer = _METRIC_LOGGER.search(line.text), "torchvision"
        elif "mb" in lower and ("eta " in lower or lower.lstrip().startswith("test: [")):
            match, printer = _SWIN.search(line.text), "swin"
        else:
            continue
        size = scaled(match[1], MIB) if match is not None else None
        if size is not None:
            value = Amount(size.bytes, MIB)  # rounded or floor-divided, by version
            found.append(scan.sample(line, "max_allocated", value, printer))
    return found
