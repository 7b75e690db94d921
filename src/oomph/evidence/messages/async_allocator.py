"""PyTorch's message with `backend:cudaMallocAsync` (A1). Source: c10/cuda/CUDAMallocAsyncAllocator.cpp.

A PyTorch limit of 2**64 - 1 bytes is printed as 17179869184.00 GiB and means that no limit was set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE, is_raised, size_of
from oomph.evidence.model import Failure, Kind

_HEAD = re.compile(r"Allocationondevice(\d{0,4})wouldexceedallowedmemory\.?")
#: The message is cut at its device index where that was put in as a character (a NUL byte ends it).
_CUT = re.compile(r"(?<=OutOfMemoryError:)Allocationondevice(?!\d{0,4}would)")
_CLAUSES = {
    "allocated_bytes": re.compile(r"Currentlyallocated:" + SIZE),
    "requested_bytes": re.compile(r"Requested:" + SIZE),
    "capacity_bytes": re.compile(r"Devicelimit:" + SIZE),
    "free_bytes": re.compile(r"Free\(accordingtoCUDA\):" + SIZE),
    "allowed_bytes": re.compile(r"PyTorchlimit\(setbyuser-suppliedmemoryfraction\):" + SIZE),
}


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures of the asynchronous allocator."""
    for match in stream.matches(_CUT, "Allocationondevice"):
        if stream.line_end(match.start()) == match.end():
            yield stream.failure(
                "A1_cudaMallocAsync",
                Kind.DEVICE_OOM,
                match.start(),
                match.end(),
                raised=True,
                truncated=True,
                detail={"backend": "cudaMallocAsync"},
            )
    for match in stream.matches(_HEAD, "Allocationondevice"):
        following = _HEAD.search(stream.text, match.end())
        end = min(following.start() if following else len(stream.text), match.end() + 700)
        body = stream.text[match.start() : end].replace("\\n", "")
        numbers = {}
        last = match.end() - match.start()
        artefacts = []
        for name, pattern in _CLAUSES.items():
            clause = pattern.search(body)
            if clause is None:
                continue
            last = max(last, clause.end())
            size = size_of(clause)
            if size is None:
                artefacts.append("no_limit_2_64")
            else:
                numbers[name] = size
        yield stream.failure(
            "A1_cudaMallocAsync",
            Kind.DEVICE_OOM,
            match.start(),
            match.start() + last,
            numbers=numbers,
            device=int(match[1]) if match[1] else None,
            raised=is_raised(stream.before(match.start())),
            truncated="requested_bytes" not in numbers,
            artefacts=tuple(artefacts),
            detail={"backend": "cudaMallocAsync"},
        )
