"""Tables that PyTorch and GPU tools print: what each GPU and process holds, and the allocator's counters.

One file per tool; `parse_gpus` and `parse_summaries` run them all. No parser raises on damaged text.
"""

from __future__ import annotations

from oomph.evidence.model import Document, GpuProcess, GpuReading, SummaryTable
from oomph.evidence.tables import (
    amd_smi,
    gpu_processes,
    gpustat,
    memory_stats,
    memory_summary,
    rocm_smi,
    smi_csv,
    smi_monitor,
    smi_table,
    xpu_smi,
)


def parse_gpus(document: Document) -> tuple[list[GpuReading], list[GpuProcess]]:
    """Readings of GPUs and their processes, in the order of the text.

    A process that was listed several times (a loop) appears once, as it was listed last. `gpu` is -1 where the tool
    named a process but not its GPU.
    """
    readings: list[GpuReading] = []
    processes: list[GpuProcess] = []
    for parse in (
        smi_table.parse_tables,
        smi_csv.parse_csv,
        smi_monitor.parse_monitor,
        rocm_smi.parse_rocm,
        gpustat.parse_gpustat,
    ):
        more_readings, more_processes = parse(document)
        readings.extend(more_readings)
        processes.extend(more_processes)
    readings.extend(amd_smi.parse_amd(document))
    readings.extend(xpu_smi.parse_xpu(document))
    processes.extend(gpu_processes.parse_processes(document))
    readings.sort(key=lambda reading: reading.position)
    return readings, _last_listed(processes)


def parse_summaries(document: Document) -> list[SummaryTable]:
    """memory_summary() tables and memory_stats() prints, in the order of the text."""
    found = memory_summary.parse_summaries(document) + memory_stats.parse_stats(document)
    return sorted(found, key=lambda table: table.position)


def _last_listed(processes: list[GpuProcess]) -> list[GpuProcess]:
    last: dict[tuple[int, int], GpuProcess] = {}
    for process in sorted(processes, key=lambda process: process.quote.line):
        key = (process.gpu, process.pid)
        last.pop(key, None)
        last[key] = process
    return list(last.values())
