"""Memory reports in sentences that a library's source fixes.

- verl and what grew from it (utils/debug/performance.py): "Before init actor, memory allocated (GB): 0.00, memory
  reserved (GB): 0.00, device memory used/total (GB): 2.39/79.11"; GB is 2**30.
- axolotl before 0.13 (utils/bench.py): "GPU memory usage after model load: 3.420GB (+0.120GB cache, +1.200GB misc)":
  allocated, reserved less allocated, and the rest of the device's use; GB is 2**30.
- nanotron: "Memory usage: 3466.06MiB. Peak allocated 3466.10MiB. Peak reserved: 3498.00MiB".
- Llama Cookbook (utils/memory_utils.py): "Max CUDA memory allocated was 21 GB", whole GB of 2**30, truncated.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import exact, scaled
from oomph.evidence.series.scan import Candidate, Scan
from oomph.units import GIB, MIB, Amount

_N = r"([0-9]{1,9}(?:\.[0-9]{1,20})?)"
_VERL = re.compile(rf"memory allocated \(GB\): {_N}, memory reserved \(GB\): {_N}")
_VERL_DEVICE = re.compile(rf"device memory used/total \(GB\): {_N}/{_N}")
_AXOLOTL = re.compile(rf"GPU memory usage .{{1,60}}?: {_N}GB \(\+{_N}GB cache")
_NANOTRON = re.compile(rf"Memory usage: {_N}MiB\. Peak allocated:? {_N}MiB\.? Peak reserved:? {_N}MiB")
_COOKBOOK = re.compile(r"Max CUDA memory (allocated|reserved) was ([0-9]{1,6}) GB")


def read(scan: Scan) -> list[MemorySample]:
    """Samples of the four printers, in the order of the text."""
    found: list[MemorySample] = []
    for line in scan.having(
        "memory allocated (gb)", "gb cache", "memory usage: ", "max cuda memory ", "device memory used/total"
    ):
        found.extend(_verl(scan, line))
        found.extend(_axolotl(scan, line))
        found.extend(_nanotron(scan, line))
        cookbook = _COOKBOOK.search(line.text)
        if cookbook is not None:
            value = scaled(cookbook[2], GIB)
            if value is not None:
                truncated = Amount(value.bytes, GIB)
                found.append(scan.sample(line, f"max_{cookbook[1]}", truncated, "llama-cookbook"))
    return found


def _verl(scan: Scan, line: Candidate) -> list[MemorySample]:
    found: list[MemorySample] = []
    match = _VERL.search(line.text)
    if match is not None:
        for what, number in (("allocated", match[1]), ("reserved", match[2])):
            value = scaled(number, GIB)
            if value is not None:
                found.append(scan.sample(line, what, value, "verl"))
    device = _VERL_DEVICE.search(line.text)
    if device is not None:
        used, total = scaled(device[1], GIB), scaled(device[2], GIB)
        if used is not None:
            found.append(scan.sample(line, "used", used, "verl", total=total))
    return found


def _axolotl(scan: Scan, line: Candidate) -> list[MemorySample]:
    match = _AXOLOTL.search(line.text)
    if match is None:
        return []
    allocated, cached = exact(match[1], "GB"), exact(match[2], "GB")
    if allocated is None or cached is None:
        return []
    reserved = Amount(allocated.bytes + cached.bytes, allocated.slack_bytes + cached.slack_bytes)
    return [
        scan.sample(line, "allocated", allocated, "axolotl"),
        scan.sample(line, "reserved", reserved, "axolotl"),
    ]


def _nanotron(scan: Scan, line: Candidate) -> list[MemorySample]:
    match = _NANOTRON.search(line.text)
    if match is None:
        return []
    found: list[MemorySample] = []
    for what, number in zip(
        ("allocated", "max_allocated", "max_reserved"), match.group(1, 2, 3), strict=True
    ):
        value = scaled(number, MIB)
        if value is not None:
            found.append(scan.sample(line, what, value, "nanotron"))
    return found
