"""torchtitan's step line and its line after the model was built.

"step: 10  loss: 7.78  memory: 10.55GiB(13.32%)  tps: 1,234" and "GPU memory usage for model: 4.46GiB(4.70%)"
("CUDA memory usage ..." in newer releases). Both print `reserved_bytes.all.peak`
(torchtitan/train.py, components/metrics.py).
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import exact
from oomph.evidence.series.scan import Scan

_STEP_LINE = re.compile(r"(?<!\w)memory:\s{0,4}([0-9]{1,6}\.[0-9]{2})GiB\([0-9.]{1,8}%\)")
_MODEL_LINE = re.compile(
    r"(?:GPU|CUDA|[A-Z]{3,4}) memory usage for model: ([0-9]{1,6}\.[0-9]{2})GiB ?\([0-9.]{1,8}%\)"
)


def read(scan: Scan) -> list[MemorySample]:
    """One sample (max_reserved) per line."""
    found: list[MemorySample] = []
    for line in scan.having("memory:", "memory usage for model"):
        match = _STEP_LINE.search(line.text) or _MODEL_LINE.search(line.text)
        value = exact(match[1], "GiB") if match is not None else None
        if value is not None:
            found.append(scan.sample(line, "max_reserved", value, "torchtitan"))
    return found
