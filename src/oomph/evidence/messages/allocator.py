"""The allocator's own message: CUDA 1.0 to 2.15, HIP, XPU and forks (formats F1-F8, H1, X1, X2, NPU).

Sources: c10/cuda/CUDACachingAllocator.cpp of the named releases; c10/xpu/XPUCachingAllocator.cpp. Every clause is
read by itself, so that a message may be cut anywhere and its clauses may stand in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE, is_mention, is_raised, size_of
from oomph.evidence.model import Failure, Kind, ProcessUse
from oomph.units import Amount, amount

_TRIED = "Triedtoallocate"
#: No known message is longer (eight process clauses and both hints fit).
_LONGEST = 2400
_VENDOR = re.compile(r"(CUDA|HIP|XPU|NPU|MUSA|MLU|GCU|HPU|SDAA|PPU)outofmemory\.?$")
_REQUEST = re.compile(_TRIED + SIZE)
_CLAUSES = {
    "capacity_bytes": re.compile(rf"(?:{SIZE}totalcapacity|hasatotalcapaci?tyof{SIZE})"),
    "free_bytes": re.compile(rf"(?:{SIZE}free|ofwhich{SIZE}isfree)"),
    "allocated_bytes": re.compile(rf"(?:{SIZE}alreadyallocated|allocatedmemory{SIZE}isallocatedby)"),
    "reserved_bytes": re.compile(rf"{SIZE}reservedintotal()()"),
    "unallocated_bytes": re.compile(rf"(?:{SIZE}cached|and{SIZE}isreservedbyPyTorchbut)"),
    "process_bytes": re.compile(rf"thisprocesshas{SIZE}memoryinuse()()"),
    "allowed_bytes": re.compile(rf"{SIZE}allowed;?()()"),
    "private_pool_bytes": re.compile(rf"with{SIZE}allocatedinprivatepools()()"),
}
_PROCESS = re.compile(rf"Process(\d{{1,10}})has{SIZE}memoryinuse")
_DEVICE = re.compile(r"(?:GPU|XPU|NPU|MUSA|MLU|GCU|HPU)(\d{0,4})(?:;|hasatotal)")
_BLANK_DEVICE = re.compile(r"GPUhasatotal")
_ON_RANK = re.compile(r"onrank(\d{1,6})\.")
_NEXT = re.compile(r"outofmemory|Tracebac?k\(most|" + _TRIED)


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures of every allocator message with a readable request."""
    for at in stream.find_all(_TRIED):
        match = _REQUEST.match(stream.text, at)
        if match is None:
            continue
        failure = _read(stream, at, match)
        if failure is not None:
            yield failure


def _read(stream: StreamText, at: int, request: re.Match[str]) -> Failure | None:
    text = stream.text
    lead = text[max(0, at - 40) : at]
    named = _VENDOR.search(lead)
    if named is None and "MPSbackend" in text[max(0, at - 160) : at]:
        return None
    start = at - len(named[0]) if named else at
    following = _NEXT.search(text, request.end(), at + _LONGEST)
    end = following.start() if following else min(len(text), at + _LONGEST)
    body = text[at:end]
    numbers, artefacts = _numbers(body)
    requested = size_of(request)
    if requested is not None:
        numbers["requested_bytes"] = requested
    processes = _processes(body, numbers, artefacts)
    if named is None and len(numbers) < 3:
        return None
    before = stream.before(start)
    raised = is_raised(before) or _vscode(stream, start, before)
    complete = "capacity_bytes" in numbers and "allocated_bytes" in numbers
    device = _DEVICE.search(body)
    on_rank = _ON_RANK.search(before)
    vendor = (named[1] if named else "CUDA").lower()
    detail = {"printed_by": "allocator"}
    if is_mention(before) and not raised:
        detail["mention"] = "quoted" if complete else "bare"
    return stream.failure(
        _format(vendor, body, before),
        Kind.DEVICE_OOM,
        start,
        at + _message_length(body),
        vendor="cuda" if vendor == "cuda" else vendor,
        numbers=numbers,
        processes=processes,
        device=int(device[1]) if device and device[1] else None,
        rank=int(on_rank[1]) if on_rank else None,
        raised=raised,
        truncated=not complete or ("allocatedmemory" in body and "unallocated_bytes" not in numbers),
        artefacts=tuple(artefacts),
        detail=detail,
    )


def _numbers(body: str) -> tuple[dict[str, Amount], list[str]]:
    numbers: dict[str, Amount] = {}
    artefacts: list[str] = []
    for name, pattern in _CLAUSES.items():
        match = pattern.search(body)
        if match is None:
            continue
        number, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
        size = amount(number, unit)
        if size is None:
            artefacts.append("nvml_2_64")
            continue
        if name == "process_bytes" and size.bytes == 0:
            artefacts.append("process_0_bytes")
        numbers[name] = size
    return numbers, artefacts


def _processes(body: str, numbers: dict[str, Amount], artefacts: list[str]) -> tuple[ProcessUse, ...]:
    uses = []
    total = 0
    slack = 0
    printed = False
    for match in _PROCESS.finditer(body):
        used = amount(match[2], match[3])
        uses.append(ProcessUse(int(match[1]), used))
        if used is None:
            artefacts.append("nvml_2_64")
        else:
            printed = True
            total += used.bytes
            slack += used.slack_bytes
    if printed:
        numbers["other_process_bytes"] = Amount(total, slack)
    return tuple(uses)


def _vscode(stream: StreamText, start: int, before: str) -> bool:
    """VS Code's exception block: the class stands alone on the line above."""
    return before == "" and stream.text[max(0, start - 80) : start].endswith(
        ("Exceptionhasoccurred:RuntimeError", "Exceptionhasoccurred:OutOfMemoryError")
    )


def _message_length(body: str) -> int:
    """Where the message ends: behind its last known clause or hint."""
    last = 0
    for pattern in (*_CLAUSES.values(), _PROCESS, _REQUEST):
        for match in pattern.finditer(body):
            last = max(last, match.end())
    return max(last, 1)


def _format(vendor: str, body: str, before: str) -> str:
    """The family's name. Where a message was cut before the part that tells two families apart, the class name
    decides, else the older family."""
    parenthesised = "totalcapacity" in body and "hasatotal" not in body
    if vendor == "hip":
        return "H1_hip"
    if vendor == "xpu":
        if parenthesised:
            return "X1_ipex"
        return "X2_xpu_free" if "isfree" in body else "X2_xpu_nofree"
    if vendor not in ("cuda", "hip", "xpu"):
        return "NPU_fork"
    if "cached)" in body or (parenthesised and re.search(SIZE + "cached", body)):
        return "F1_cached"
    if parenthesised:
        return "F3_reserved_hint" if "Ifreservedmemory" in body else "F2_reserved"
    if "capactyof" in body:
        return "F4_capacty"
    if "PYTORCH_ALLOC_CONF" in body:
        return "F7_210"
    if "docs.pytorch.org" in body:
        return "F8_211"
    if _BLANK_DEVICE.search(body):
        return "F5_23_blank_gpu_index"
    if before.endswith("torch.cuda.OutOfMemoryError:"):
        return "F5_22_23"
    return "F6_torchOOM"
