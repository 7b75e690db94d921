"""`nvidia-smi -q`, whole or some of its sections (-d MEMORY,ECC), of drivers 375 to 610.

A GPU begins with "GPU 00000000:07:00.0"; below it, keys are indented under their sections. GPUs have no index there:
they stand in the driver's order, which counts where as many stand there as are attached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.evidence.environment.formats.values import size, whole, yes
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Card, CardProcess, MigDevice
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line, Quote

_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_KEY = re.compile(r"( *)(\S[^:\n]{0,80}?)\s*(?:: ?(\S[^\n]{0,400})?)?$")
_CHOSEN = re.compile(r"(?:-i|--id)[ =]?(\d{1,3})(?:\s|$)")
_HEADER = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs")
#: What Windows' WDDM and a driver that hides it print for a process's memory.
_NO_NAME = ("N/A", "[N/A]", "Insufficient Permissions")


@dataclass
class _Gpu:
    """One GPU's keys: the path of sections to each, and the line of its heading."""

    bus_id: str
    quote: Quote
    leaves: dict[tuple[str, ...], str] = field(default_factory=dict)
    processes: list[CardProcess] | None = None
    mig: list[dict[str, str]] = field(default_factory=list)


@dataclass
class _Report:
    """What stands between one "NVSMI LOG" and the next."""

    attached: int | None = None
    gpus: list[_Gpu] = field(default_factory=list)
    stack: list[tuple[int, str]] = field(default_factory=list)
    open: bool = False


def parse(part: Part, found: Found) -> None:
    """Cards, drivers and the driver's CUDA version."""
    report = _Report()
    for line in part.lines:
        text = line.text.rstrip()
        if not text:
            continue
        if "NVSMI LOG" in text:
            _finish(part, found, report)
            report = _Report(open=True)
            continue
        gpu = _GPU.match(text.lstrip()) if "GPU " in text else None
        if gpu is not None:
            report.open = True
            report.gpus.append(_Gpu(gpu[1], part.quote(line)))
            report.stack = []
        elif report.open:
            _take(part, found, report, line, text)
    _finish(part, found, report)


def _take(part: Part, found: Found, report: _Report, line: Line, text: str) -> None:
    match = _KEY.match(text)
    if match is None:
        return
    indent, key, value = len(match[1]), match[2], (match[3] or "").strip()
    if not report.gpus or (indent == 0 and key in _HEADER):
        if key in _HEADER and value:
            _header(part, found, report, line, key, value)
        return
    if indent == 0:
        report.open = False
        return
    while report.stack and report.stack[-1][0] >= indent:
        report.stack.pop()
    path = (*(name for _, name in report.stack), key)
    report.stack.append((indent, key))
    if len(report.stack) > 20:
        report.stack = report.stack[:1]
    gpu = report.gpus[-1]
    if "Processes" in path:
        _process(gpu, path, value, part.quote(line))
    elif path[0].startswith("MIG Device"):
        _mig(gpu, path, value)
    elif value:
        gpu.leaves.setdefault(path, value)


def _header(part: Part, found: Found, report: _Report, line: Line, key: str, value: str) -> None:
    quote = part.quote(line)
    if key == "Driver Version" and re.match(r"\d{2,4}\.\d", value):
        found.take(part.source, "nvidia-smi -q")
        found.add("drivers", value.split()[0], quote)
    elif key == "CUDA Version" and re.match(r"\d{1,2}\.\d", value):
        found.tell("driver_cuda", value.split()[0], quote)
    elif key == "Attached GPUs":
        report.attached = whole(value)
        found.told.add("cards")
        found.take(part.source, "nvidia-smi -q")


def _process(gpu: _Gpu, path: tuple[str, ...], value: str, quote: Quote) -> None:
    held = gpu.processes if gpu.processes is not None else []
    gpu.processes = held
    key = path[-1]
    if key == "Process ID":
        pid = whole(value)
        if pid is not None:
            held.append(CardProcess(pid=pid, used_bytes=None, name="", kind="", quote=quote))
        return
    if not held or "Process ID" not in path:
        return
    last = held[-1]
    if key == "Type":
        held[-1] = CardProcess(last.pid, last.used_bytes, last.name, value, last.quote)
    elif key == "Name" and value not in _NO_NAME:
        held[-1] = CardProcess(last.pid, last.used_bytes, value, last.kind, last.quote)
    elif key == "Used GPU Memory":
        held[-1] = CardProcess(last.pid, size(value), last.name, last.kind, last.quote)


def _mig(gpu: _Gpu, path: tuple[str, ...], value: str) -> None:
    if len(path) == 1 or path[-1] == "Index" or not gpu.mig:
        if not gpu.mig or "Index" in gpu.mig[-1] or len(path) == 1:
            gpu.mig.append({})
    if value:
        gpu.mig[-1].setdefault(" ".join(path[1:]), value)


def _finish(part: Part, found: Found, report: _Report) -> None:
    indexes = _indexes(part, report)
    for gpu, index in zip(report.gpus, indexes, strict=True):
        if not gpu.leaves and gpu.processes is None:
            continue
        found.take(part.source, "nvidia-smi -q")
        found.add_card(_card(gpu, index))


def _indexes(part: Part, report: _Report) -> list[int | None]:
    """The driver's index of each GPU; None where it may be any (`-i`, a report that was cut)."""
    count = len(report.gpus)
    order: list[int | None] = list(range(count))
    if report.attached is None or report.attached <= count:
        return order
    chosen = _CHOSEN.search(part.command.text) if part.command is not None else None
    if chosen is not None and count == 1:
        return [int(chosen[1])]
    minors = [whole(gpu.leaves.get(("Minor Number",))) for gpu in report.gpus]
    return order if minors == order else [None] * count


def _card(gpu: _Gpu, index: int | None) -> Card:
    leaves = gpu.leaves
    pending = yes(leaves.get(("Remapped Rows", "Pending")))
    pages = yes(
        leaves.get(("Retired Pages", "Pending Page Blacklist")) or leaves.get(("Retired Pages", "Pending"))
    )
    mig = yes(leaves.get(("MIG Mode", "Current")))
    return Card(
        quote=gpu.quote,
        index=index,
        uuid=_known(leaves.get(("GPU UUID",))),
        bus_id=_known(leaves.get(("PCI", "Bus Id"))) or gpu.bus_id,
        name=_known(leaves.get(("Product Name",))),
        total_bytes=size(leaves.get(("FB Memory Usage", "Total"))),
        used_bytes=size(leaves.get(("FB Memory Usage", "Used"))),
        free_bytes=size(leaves.get(("FB Memory Usage", "Free"))),
        reserved_bytes=size(leaves.get(("FB Memory Usage", "Reserved"))),
        utilization=whole(leaves.get(("Utilization", "Gpu")) or leaves.get(("Utilization", "GPU"))),
        persistence=yes(leaves.get(("Persistence Mode",))),
        mig=mig,
        mig_devices=tuple(_mig_device(one) for one in gpu.mig if one) if mig is not False else (),
        ecc=yes(leaves.get(("ECC Mode", "Current"))),
        ecc_uncorrected=_uncorrected(leaves),
        remap_pending=pages if pending is None else pending or bool(pages),
        remap_failed=yes(leaves.get(("Remapped Rows", "Remapping Failure Occurred"))),
        compute_mode=_known(leaves.get(("Compute Mode",))),
        display_active=yes(leaves.get(("Display Active",))),
        driver_model=_known(leaves.get(("Driver Model", "Current"))),
        processes=None if gpu.processes is None else tuple(gpu.processes),
    )


def _known(value: str | None) -> str:
    return "" if value is None or value in ("N/A", "[N/A]", "Unknown Error", "None") else value


def _mig_device(leaves: Mapping[str, str]) -> MigDevice:
    total = next((value for name, value in leaves.items() if name.endswith("FB Memory Usage Total")), None)
    uuid = next((value for name, value in leaves.items() if name.endswith("UUID")), "")
    profile = next((value for name, value in leaves.items() if name.endswith(("Profile", "Name"))), "")
    return MigDevice(_known(profile), size(total), _known(uuid))


def _uncorrected(leaves: Mapping[tuple[str, ...], str]) -> int | None:
    """The larger of the volatile and the aggregate count of errors that ECC could not correct."""
    counts: list[int] = []
    for period in ("Volatile", "Aggregate"):
        own = {path[2:]: value for path, value in leaves.items() if path[:2] == ("ECC Errors", period)}
        total = whole(own.get(("Double Bit", "Total")))
        if total is not None:
            counts.append(total)
            continue
        found = [
            whole(value)
            for path, value in own.items()
            if "Uncorrectable" in path[-1] or path[0] == "Double Bit"
        ]
        known = [one for one in found if one is not None]
        if known:
            counts.append(sum(known))
    return max(counts, default=None)
