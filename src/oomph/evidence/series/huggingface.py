"""Figures that the Hugging Face Trainer and the examples around it print.

- Trainer with `skip_memory_metrics=False` (trainer_utils.TrainerMemoryTracker): deltas per stage, as bytes in a dict
  ("'train_mem_gpu_alloc_delta': 126487040") or rounded to MB (2**20) in a "***** train metrics *****" block. A delta is
  not a size that anything had; the peak of training is
  before_init + init_alloc_delta + train_alloc_delta + train_peaked_delta, and is given only where all four stand
  together.
- The memory tracer of the PEFT and Accelerate examples: "GPU Memory before entering the train : 1916",
  "GPU Total Peak Memory consumed during the train (max): 9404", whole MB of 2**20.
- `print_gpu_utilization` of the documentation: "GPU memory occupied: 2631 MB." (NVML, whole MB of 2**20).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import scaled
from oomph.evidence.series.scan import Candidate, Scan
from oomph.units import MIB, Amount

_PARTS = (
    "before_init_mem_gpu",
    "init_mem_gpu_alloc_delta",
    "train_mem_gpu_alloc_delta",
    "train_mem_gpu_peaked_delta",
)
_METRIC = re.compile(
    r"(?<!\w)("
    + "|".join(_PARTS)
    + r")(?!\w)['\"]?\s{0,20}[:=]\s{0,20}['\"]?(-?)([0-9]{1,18})(MB)?(?![0-9.])"
)
_TRACER = re.compile(
    r"(?<!\w)(GPU|CUDA|XPU|CPU) (Memory before entering|Total Peak Memory consumed during) the (train|eval) ?"
    r"(?:\(max\))?: ?([0-9]{1,9})\s*\Z"
)
_OCCUPIED = re.compile(r"GPU memory occupied: ([0-9]{1,9}) MB\b")

#: Lines between the first and the last of the metrics of one report (a block or a pretty-printed dict).
_BLOCK = 40


def read(scan: Scan) -> list[MemorySample]:
    """Samples of the three printers."""
    found = _trainer(scan)
    for line in scan.having("the train", "the eval", "gpu memory occupied"):
        tracer = _TRACER.search(line.text)
        if tracer is not None:
            value = _whole_mib(tracer[4])
            peak = tracer[2].startswith("Total")
            what = "host_used" if tracer[1] == "CPU" else "max_allocated" if peak else "allocated"
            context = "eval" if tracer[3] == "eval" else "train"
            if value is not None and not (tracer[1] == "CPU" and peak):
                found.append(scan.sample(line, what, value, "huggingface", context=context))
        occupied = _OCCUPIED.search(line.text)
        value = _whole_mib(occupied[1]) if occupied is not None else None
        if value is not None:
            found.append(scan.sample(line, "used", value, "huggingface"))
    return found


def _whole_mib(number: str) -> Amount | None:
    value = scaled(number, MIB)
    return None if value is None else Amount(value.bytes, MIB)  # truncated by the printer


def _trainer(scan: Scan) -> list[MemorySample]:
    found: list[MemorySample] = []
    known: dict[str, int] = {}
    slack = 0
    start = 0
    for line, name, size, rounding in _metrics(scan.having("mem_gpu")):
        if name in known or line.index - start > _BLOCK:
            known, slack = {}, 0
        if not known:
            start = line.index
        known[name] = size
        slack += rounding
        if len(known) == len(_PARTS):
            peak = max(0, sum(known.values()))
            found.append(
                scan.sample(line, "max_allocated", Amount(peak, slack), "huggingface", context="train")
            )
            known, slack = {}, 0
    return found


def _metrics(lines: Iterable[Candidate]) -> Iterable[tuple[Candidate, str, int, int]]:
    for line in lines:
        for match in _METRIC.finditer(line.text):
            factor = MIB if match[4] else 1
            size = int(match[3]) * factor * (-1 if match[2] else 1)
            if abs(size) < 2**62:
                yield line, match[1], size, MIB if match[4] else 0
