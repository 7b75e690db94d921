"""The GPUs of a host as `oomph record -- CMD` saw them: the last reading before the failure, in the terms of
nvidia-smi's tables.

A reading has the driver's numbers of GPUs, a failure the number that its process sees (CUDA_VISIBLE_DEVICES changes
them): the failing rank's card is the one on which its process is listed, or the only one that the host has.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.evidence.model import Document, Fact, GpuProcess, GpuReading, Line, Position
from oomph.evidence.run.data import RankData, RunData
from oomph.evidence.run.files import host_file
from oomph.evidence.run.model import GPUS, GpuSample
from oomph.probe.model import Gpu
from oomph.units import Amount, format_bytes

#: Processes of others that are worth a note.
_MENTIONED_BYTES = 64 << 20
_MOST_NEIGHBOURS = 6


@dataclass
class Readings:
    """One document, and what stands in it."""

    document: Document
    gpus: list[GpuReading] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)


def readings_of(run: RunData, index: int) -> Readings | None:
    """The card of the rank that failed first, as document number `index`; None where it is not known which it was, or
    nothing was read of it."""
    first = run.first_failure.ranks if run.first_failure is not None else ()
    rank = run.ranks.get(first[0]) if first else None
    if rank is None or rank.header is None:
        return None
    host = rank.header.host
    until = rank.oom.time if rank.oom is not None else rank.last_time
    samples = [one for one in run.gpus.get(host_file(host), ()) if one.gpus]
    before = [one for one in samples if until is None or one.time <= until] or samples[:1]
    for sample in reversed(before[-20:]):
        gpu = _card(sample, rank)
        if gpu is not None:
            return _readings(run, host, sample, gpu, rank, index)
    return None


def _card(sample: GpuSample, rank: RankData) -> Gpu | None:
    """The GPU that the rank used."""
    pids = {one.pid for one in rank.headers}
    mine = [gpu for gpu in sample.gpus if any(process.pid in pids for process in gpu.processes)]
    if len(mine) == 1:
        return mine[0]
    return sample.gpus[0] if len(sample.gpus) == 1 else None


def _readings(run: RunData, host: str, sample: GpuSample, gpu: Gpu, rank: RankData, index: int) -> Readings:
    document = Document(f"{run.path.rstrip('/')}/{GPUS}/{host_file(host)}.jsonl", [], index=index)
    made = Readings(document)
    number = rank.header.device_index if rank.header is not None else None
    device = gpu.index if number is None else number
    used = "not told" if gpu.used_bytes is None else format_bytes(gpu.used_bytes)
    total = "" if gpu.capacity_bytes is None else f" of {format_bytes(gpu.capacity_bytes)}"
    document.lines.append(
        Line(f"GPU {gpu.index} of {host} ({gpu.name}): {used}{total} in use", 1, time=sample.time)
    )
    made.gpus.append(
        GpuReading(
            device,
            gpu.name,
            _amount(gpu.used_bytes),
            _amount(gpu.capacity_bytes),
            _amount(gpu.free_bytes),
            Position(index, 0),
            document.quote(0),
            sample.time,
        )
    )
    for process in gpu.processes:
        line = len(document.lines)
        whose = "of the job" if process.ours else "not of the job"
        size = "its use is not told" if process.used_bytes is None else format_bytes(process.used_bytes)
        text = f"GPU {gpu.index} of {host}: process {process.pid} {process.name} ({whose}): {size}"
        document.lines.append(Line(text, 1, time=sample.time))
        quote = document.quote(line)
        made.processes.append(
            GpuProcess(device, process.pid, process.name, _amount(process.used_bytes), quote)
        )
        if process.ours:
            made.facts.append(Fact("rank_pid", str(process.pid), Position(index, line), quote))
    return made


def _amount(size: int | None) -> Amount | None:
    return None if size is None else Amount(size)


def neighbours_that_came(run: RunData) -> list[str]:
    """A sentence for each process that is not the job's and came to one of its cards while the run went on."""
    said: list[str] = []
    for host, samples in run.gpus.items():
        before: set[int] | None = None
        most: dict[int, tuple[int, str, int]] = {}
        for sample in samples:
            if not sample.gpus:
                continue
            others = [
                (gpu.index, one)
                for gpu in sample.gpus
                if any(process.ours for process in gpu.processes)
                for one in gpu.processes
                if not one.ours
            ]
            if before is None:
                before = {one.pid for gpu in sample.gpus for one in gpu.processes if not one.ours}
            for index, one in others:
                size = one.used_bytes or 0
                if (
                    one.pid not in before
                    and size >= _MENTIONED_BYTES
                    and size > most.get(one.pid, (0, "", 0))[0]
                ):
                    most[one.pid] = (size, one.name, index)
        for pid, (size, name, index) in list(most.items())[:_MOST_NEIGHBOURS]:
            said.append(
                f"While the run went on, {name or 'a process'} (process {pid}), not of the job, came to GPU {index} of "
                f"{host} and held up to {format_bytes(size)} there."
            )
    return said
