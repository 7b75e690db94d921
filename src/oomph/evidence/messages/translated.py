"""A translated message (L1): keywords are gone, numbers remain, in the template's order.

Only a line that names CUDA (or HIP, XPU) and a GPU and prints at least three sizes counts, and only when the sizes can
be what their places say: a request, a capacity, a free part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE
from oomph.evidence.model import Failure, Kind, Position, ProcessUse
from oomph.units import Amount, amount

_SIZE = re.compile(SIZE)
_GPU = re.compile(r"GPU(\d{1,3})(?!\d)")
_PID = re.compile(r"(?<![\d.])(\d{2,10})[^\d\s]{1,40}$")
_ENGLISH = ("outofmemory", "Triedtoallocate", "totalcapac", "utilization", "Utilization", "KVcache")


def parse(stream: StreamText) -> Iterable[Failure]:
    """At most one Failure per line."""
    if "GPU" not in stream.text:
        return
    for index in stream.indices:
        text = stream.document.lines[index].text
        if "GPU" not in text or (text.isascii() and "CUDA" not in text):
            continue
        if "CUDA" not in text and "HIP" not in text and "XPU" not in text:
            continue
        compact = "".join(text.split())
        if any(word in compact for word in _ENGLISH):
            continue
        failure = _read(stream, index, compact)
        if failure is not None:
            yield failure


def _read(stream: StreamText, index: int, compact: str) -> Failure | None:
    gpu = _GPU.search(compact)
    matches = list(_SIZE.finditer(compact))[:12]
    if gpu is None or len(matches) < 3 or matches[0].start() > gpu.start() + 200:
        return None
    sizes = [amount(match[1], match[2]) for match in matches]
    request, first, second = sizes[0], sizes[1], sizes[2]
    if request is None or first is None or second is None or compact.isascii():
        return None
    capacity, free = (first, second) if first.bytes >= second.bytes else (second, first)
    if (
        abs(request.bytes + free.bytes - capacity.bytes)
        <= request.slack_bytes + free.slack_bytes + capacity.slack_bytes
    ):
        return None  # used and free of a status line, not a request
    if not (matches[0].start() < gpu.start() < matches[1].start()) or request.bytes > 8 * capacity.bytes:
        return None
    numbers: dict[str, Amount] = {
        "requested_bytes": request,
        "capacity_bytes": capacity,
        "free_bytes": free,
    }
    processes = []
    for match, size in zip(matches[3:], sizes[3:], strict=True):
        pid = _PID.search(compact[: match.start()])
        if pid is None or size is None:
            break
        processes.append(ProcessUse(int(pid[1]), size))
    if processes:
        used = [use.used for use in processes if use.used is not None]
        numbers["other_process_bytes"] = Amount(sum(u.bytes for u in used), sum(u.slack_bytes for u in used))
    position = Position(stream.document.index, index)
    return Failure(
        format="L1_localised",
        kind=Kind.DEVICE_OOM,
        vendor="hip" if "HIP" in compact else "xpu" if "XPU" in compact else "cuda",
        position=position,
        end=position,
        quote=stream.document.quote(index),
        numbers=numbers,
        processes=tuple(processes),
        device=int(gpu[1]),
        rank=stream.document.lines[index].rank,
        stream=stream.stream,
        detail={"printed_by": "translated"},
    )
