"""Apple's MPS message (M1, M2). Source: aten/src/ATen/mps/MPSAllocator.mm; its older text prints GB and means 2**30."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE, is_raised, size_of
from oomph.evidence.model import Failure, Kind

_HEAD = "MPSbackendoutofmemory"
_CLAUSES = {
    "allocated_bytes": re.compile(r"MPSallocated:" + SIZE),
    "other_allocations_bytes": re.compile(r"otherallocations:" + SIZE),
    "allowed_bytes": re.compile(r"maxallowed:" + SIZE),
    "requested_bytes": re.compile(r"Triedtoallocate" + SIZE),
}
_DECIMAL = re.compile(r"\d(?:G|M|K)B")


#: One Metal buffer larger than the device allows; the message's GB are 2**30 like those of the other text.
_BUFFER = re.compile(r"Invalidbuffersize:" + SIZE)


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures of the MPS allocator."""
    for match in _BUFFER.finditer(stream.text):
        size = size_of(match, binary_gb=True)
        if size is not None and is_raised(stream.before(match.start())):
            yield stream.failure(
                "M3_mps_buffer",
                Kind.UNIFIED_OOM,
                match.start(),
                match.end(),
                vendor="mps",
                numbers={"requested_bytes": size},
                raised=True,
            )
    for at in stream.find_all(_HEAD):
        following = stream.text.find(_HEAD, at + 1)
        body = stream.text[at : min(following if following > 0 else len(stream.text), at + 400)]
        numbers = {}
        last = len(_HEAD)
        for name, pattern in _CLAUSES.items():
            clause = pattern.search(body)
            size = size_of(clause, binary_gb=True)
            if clause is not None and size is not None:
                numbers[name] = size
                last = max(last, clause.end())
        before = stream.before(at)
        if not numbers and not is_raised(before):
            continue
        yield stream.failure(
            "M1_mps_GB" if _DECIMAL.search(body) else "M2_mps_GiB",
            Kind.UNIFIED_OOM,
            at,
            at + last,
            vendor="mps",
            numbers=numbers,
            raised=is_raised(before),
            truncated="requested_bytes" not in numbers,
        )
