"""Metrics that loggers print as `key: value`, where the key alone says what the number is and in which unit.

Every key is one that a library's source writes: torchtitan and its descendants (memory/max_reserved(GiB)), axolotl
(memory/max_allocated (GiB), before 0.13 memory/max_mem_allocated(gib)), Composer and LLM Foundry
(memory/peak_reserved_mem, in units of 10**9 bytes), Lightning's DeviceStatsMonitor
(on_train_batch_start/allocated_bytes.all.peak, bytes), verl (perf/max_memory_reserved_gb, 2**30), ms-swift
(memory(GiB)), OLMo-core (GPU reserved mem (GiB)), Megatron (mem-allocated-bytes). Peaks of active bytes are neither
allocated nor reserved and are left out.
"""

from __future__ import annotations

import re

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import scaled
from oomph.evidence.series.scan import Scan
from oomph.units import GIB

_GB = 10**9

#: key (lower case) -> (what, bytes per unit, printer)
_KEYS: dict[str, tuple[str, int, str]] = {
    "memory/max_reserved(gib)": ("max_reserved", GIB, "torchtitan"),
    "memory/max_reserved (gib)": ("max_reserved", GIB, "torchtitan"),
    "memory/max_allocated (gib)": ("max_allocated", GIB, "axolotl"),
    "memory/device_reserved (gib)": ("max_reserved", GIB, "axolotl"),
    "memory/max_mem_allocated(gib)": ("max_allocated", GIB, "axolotl"),
    "memory/device_mem_reserved(gib)": ("max_reserved", GIB, "axolotl"),
    "memory/current_allocated_mem": ("allocated", _GB, "composer"),
    "memory/current_reserved_mem": ("reserved", _GB, "composer"),
    "memory/peak_allocated_mem": ("max_allocated", _GB, "composer"),
    "memory/peak_reserved_mem": ("max_reserved", _GB, "composer"),
    "perf/max_memory_allocated_gb": ("max_allocated", GIB, "verl"),
    "perf/max_memory_reserved_gb": ("max_reserved", GIB, "verl"),
    "perf/cpu_memory_used_gb": ("host_used", GIB, "verl"),
    "memory(gib)": ("max_reserved", GIB, "swift"),
    "gpu reserved mem (gib)": ("max_reserved", GIB, "olmo"),
    "mem-allocated-bytes": ("allocated", 1, "megatron"),
    "mem-reserved-bytes": ("reserved", 1, "megatron"),
    "mem-max-allocated-bytes": ("max_allocated", 1, "megatron"),
}
for _moment in ("start", "end"):
    for _key, _what in (
        ("allocated_bytes.all.current", "allocated"),
        ("allocated_bytes.all.peak", "max_allocated"),
        ("reserved_bytes.all.current", "reserved"),
        ("reserved_bytes.all.peak", "max_reserved"),
    ):
        _KEYS[f"on_train_batch_{_moment}/{_key}"] = (_what, 1, "lightning")

_FIGURE = re.compile(
    r"(?<![\w(])(" + "|".join(re.escape(key) for key in sorted(_KEYS, key=len, reverse=True)) + r")(?![\w(])"
    r"['\"]?\s{0,8}[:=]?\s{0,8}['\"]?([0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?(?:e\+?[0-9]{1,2})?)(?![\w.%])"
)


def read(scan: Scan) -> list[MemorySample]:
    """One sample per known key with a number."""
    found: list[MemorySample] = []
    for line in scan.having("memory/", "perf/", "memory(gib)", "reserved mem (gib)", "-bytes", "_bytes.all."):
        for match in _FIGURE.finditer(line.lower):
            what, factor, printer = _KEYS[match[1]]
            value = scaled(match[2].rstrip(","), factor)
            if value is not None:
                found.append(scan.sample(line, what, value, printer))
    return found
