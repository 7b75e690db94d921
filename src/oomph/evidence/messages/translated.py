"""A translated message (L1): keywords are gone, numbers remain, in the template's order.

Only a line that names CUDA (or HIP, XPU) and a GPU and prints at least three sizes counts, and only when the sizes can
be what their places say: a request, a capacity, a free part of it. What follows is read where the numbers fit each
other in one way alone:

- since torch 2.2: (this process;) allocated by PyTorch; reserved but unallocated;
- before: request; capacity; already allocated; free; reserved in total.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE
from oomph.evidence.model import Failure, Kind, Position, ProcessUse
from oomph.units import Amount, amount

_SIZE = re.compile(SIZE)
_GPU = re.compile(r"GPU(\d{1,3})(?!\d)")
_PID = re.compile(r"(?<![\d.,])(\d{2,10})[^\d\s]{1,40}$")
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
    if request.bytes > 8 * max(first.bytes, second.bytes):
        return None
    if not (matches[0].start() < gpu.start() < matches[1].start()):
        return None
    numbers = _old_order(sizes)
    processes: list[ProcessUse] = []
    if numbers is None:
        capacity, free = (first, second) if first.bytes >= second.bytes else (second, first)
        if _within(request.bytes + free.bytes - capacity.bytes, request, free, capacity):
            return None  # used and free of a status line, not a request
        numbers = {"requested_bytes": request, "capacity_bytes": capacity, "free_bytes": free}
        processes = _processes(compact, matches, sizes)
        used = [use.used for use in processes if use.used is not None]
        if used:
            numbers["other_process_bytes"] = Amount(
                sum(u.bytes for u in used), sum(u.slack_bytes for u in used)
            )
        numbers.update(_new_order(capacity, free, sizes[3 + len(processes) :]))
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


def _within(difference: int, *printed: Amount) -> bool:
    """Is it zero, as exactly as `printed` are printed?"""
    return abs(difference) <= sum(one.slack_bytes for one in printed)


def _fits(parts: Sequence[Amount], whole: Amount) -> bool:
    """Do `parts` together fit into `whole`, within rounding?"""
    return sum(part.low_bytes for part in parts) <= whole.high_bytes


def _processes(
    compact: str, matches: Sequence[re.Match[str]], sizes: Sequence[Amount | None]
) -> list[ProcessUse]:
    """The sizes behind the third, as long as each has a pid before it."""
    found: list[ProcessUse] = []
    for match, size in zip(matches[3:], sizes[3:], strict=True):
        pid = _PID.search(compact[: match.start()])
        if pid is None or size is None:
            break
        found.append(ProcessUse(int(pid[1]), size))
    return found


def _new_order(capacity: Amount, free: Amount, rest: Sequence[Amount | None]) -> dict[str, Amount]:
    """[process,] allocated, unallocated: what they say where they fit, else nothing.

    Where less is allocated than unallocated, a translator may as well have turned the two around: nothing is read.
    """
    given = [one for one in rest if one is not None]
    if len(given) != len(rest) or len(rest) not in (2, 3):
        return {}
    allocated, unallocated = given[-2:]
    if unallocated.bytes > allocated.bytes or not _fits((free, allocated, unallocated), capacity):
        return {}
    numbers = {"allocated_bytes": allocated, "unallocated_bytes": unallocated}
    if len(given) == 3:
        process = given[0]
        if not (_fits((allocated, unallocated), process) and _fits((process,), capacity)):
            return {}
        numbers["process_bytes"] = process
    return numbers


def _old_order(sizes: Sequence[Amount | None]) -> dict[str, Amount] | None:
    """Request, capacity, allocated, free, reserved, where that and nothing else fits five sizes."""
    given = [one for one in sizes if one is not None]
    if len(given) != 5 or len(sizes) != 5:
        return None
    request, capacity, allocated, free, reserved = given
    fits = _fits((allocated,), reserved) and _fits((free, reserved), capacity)
    if not fits or free.bytes > request.bytes or _fits((allocated, free, reserved), capacity):
        return None  # the last holds of the newer order, whose third size is what is free
    return {
        "requested_bytes": request,
        "capacity_bytes": capacity,
        "allocated_bytes": allocated,
        "free_bytes": free,
        "reserved_bytes": reserved,
    }
