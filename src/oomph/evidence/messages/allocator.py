"""The allocator's own message: CUDA 1.0 to 2.15, HIP, XPU and forks (formats F1-F8, H1, X1, X2, NPU).

Sources: c10/cuda/CUDACachingAllocator.cpp of the named releases; c10/xpu/XPUCachingAllocator.cpp. Clauses may stand
in any order and the message may be cut anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.clauses import Reading, read_clauses
from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE, is_raised, mention, size_of
from oomph.evidence.model import Failure, Kind

_TRIED = "Triedtoallocate"
#: No known message is longer (eight process clauses and both hints fit).
_LONGEST = 2400
#: How far behind the last clause the hint is looked at, to tell releases apart.
_HINT = 420
_VENDOR = re.compile(r"(CUDA|HIP|XPU|NPU|MUSA|MLU|GCU|HPU|SDAA|PPU)outofmemory\.?$")
_REQUEST = re.compile(_TRIED + SIZE)
#: A request that is no size: negative, not a number, or longer than any size.
_NO_SIZE = re.compile(_TRIED + r"(?=-\d|nan|inf|\d{17})[-\w.,]{1,5000}?(?:bytes|[KMGT]i?B)(?=\.?G|\(|\.|$)")
_ON_RANK = re.compile(r"onrank(\d{1,6})\.")
_NEXT = re.compile(r"outofmemory|Traceback\(most|" + _TRIED)


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures of every allocator message with a readable request."""
    for at in stream.find_all(_TRIED):
        match = _REQUEST.match(stream.text, at) or _NO_SIZE.match(stream.text, at)
        if match is None:
            continue
        failure = _read(stream, at, match)
        if failure is not None:
            yield failure


def _read(stream: StreamText, at: int, request: re.Match[str]) -> Failure | None:
    text = stream.text
    named = _VENDOR.search(text[max(0, at - 40) : at])
    if named is None and "MPSbackend" in text[max(0, at - 160) : at]:
        return None
    start = at - len(named[0]) if named else at
    following = _NEXT.search(text, request.end(), request.end() + _LONGEST)
    limit = following.start() if following else min(len(text), request.end() + _LONGEST)
    reading = read_clauses(text, request.end(), limit, stream.line_end(at))
    requested = size_of(request) if request.re is _REQUEST else None
    if requested is not None:
        reading.numbers["requested_bytes"] = requested
    if requested is None or not requested.bytes:
        reading.artefacts.append("damaged_size")  # the allocator is never asked for nothing, or for less
    if named is None and len(reading.numbers) < 3:
        return None
    before = stream.before(start)
    raised = is_raised(before) or _vscode(stream, start, before)
    complete = "capacity_bytes" in reading.numbers and "allocated_bytes" in reading.numbers
    told = "" if raised else mention(before)
    if told == "prose" or (told == "quote" and not complete):
        return None
    vendor = (named[1] if named else "CUDA").lower()
    hint = text[reading.end : min(limit, reading.end + _HINT)]
    on_rank = _ON_RANK.search(before)
    return stream.failure(
        _format(vendor, reading, text[at : reading.end], hint, before),
        Kind.DEVICE_OOM,
        start,
        reading.end,
        vendor=vendor,
        numbers=reading.numbers,
        processes=tuple(reading.processes),
        device=reading.device,
        rank=int(on_rank[1]) if on_rank else None,
        raised=raised,
        truncated=_truncated(vendor, reading, text[at : reading.end]),
        artefacts=tuple(reading.artefacts),
        detail={"mention": told} if told else {},
    )


def _truncated(vendor: str, reading: Reading, body: str) -> bool:
    """True when a clause that this family always prints is missing: the text was cut."""
    last = {"unallocated_bytes", "reserved_bytes"} & set(reading.numbers)
    return not last or "capacity_bytes" not in reading.numbers or "allocated_bytes" not in reading.numbers


def _vscode(stream: StreamText, start: int, before: str) -> bool:
    """VS Code's exception block: the class stands alone on the line above."""
    return before == "" and stream.text[max(0, start - 80) : start].endswith(
        ("Exceptionhasoccurred:RuntimeError", "Exceptionhasoccurred:OutOfMemoryError")
    )


def _format(vendor: str, reading: Reading, body: str, hint: str, before: str) -> str:
    """The family's name. Where a message was cut before the part that tells two families apart, the class name
    decides, else the older family."""
    parenthesised = "totalcapacity" in body and "hasatotal" not in body
    if vendor == "hip":
        return "H1_hip"
    if vendor == "xpu":
        if parenthesised:
            return "X1_ipex"
        return "X2_xpu_free" if "free_bytes" in reading.numbers else "X2_xpu_nofree"
    if vendor != "cuda":
        return "NPU_fork"
    if parenthesised:
        if "cached" in body:
            return "F1_cached"
        return "F3_reserved_hint" if "Ifreservedmemory" in hint[:40] else "F2_reserved"
    if "capactyof" in body:
        return "F4_capacty"
    if "PYTORCH_ALLOC_CONF" in hint:
        return "F7_210"
    if "docs.pytorch.org" in hint:
        return "F8_211"
    if "blank_device" in reading.seen:
        return "F5_23_blank_gpu_index"
    if before.endswith("torch.cuda.OutOfMemoryError:"):
        return "F5_22_23"
    return "F6_torchOOM"
