"""How much memory the device had for PyTorch, told from a trace that ran into the limit.

A device that was full left two kinds of marks: an OOM, at which the driver's own free bytes are recorded, and a
retry: cached memory was released right before a segment was asked for. The second looks like `empty_cache` before a
large request, so a capacity that follows from it is only a candidate until a replay with it gives the recorded
sequence.
"""

from __future__ import annotations

import numpy as np

from oomph.memory.timeline import Kind, Timeline

_GROWS = (Kind.SEGMENT_ALLOC, Kind.SEGMENT_MAP)
_SHRINKS = (Kind.SEGMENT_FREE, Kind.SEGMENT_UNMAP)


def capacities(timeline: Timeline, start_reserved_bytes: int) -> list[int]:
    """Capacities (bytes that PyTorch could reserve in all) that the trace allows, best first; empty when it shows no
    pressure.

    At least the most that was reserved. After an OOM it is known: reserved + free on the device. After retries it is
    below what would have been reserved without them.
    """
    reserved = start_reserved_bytes + np.cumsum(timeline.reserved_change_bytes)
    least = max(start_reserved_bytes, int(reserved.max(initial=0)))
    result = []
    for position, free in timeline.free_bytes.items():
        result.append(int(reserved[position]) + free)
    most = _most(timeline, start_reserved_bytes, reserved.tolist())
    if most is not None and most >= least:
        result += [(least + most) // 2, least, most]
    return [capacity for capacity in dict.fromkeys(result) if capacity >= least]


def _most(timeline: Timeline, start_reserved: int, reserved: list[int]) -> int | None:
    """One byte less than what the tightest retry would have needed without releasing anything; None without one."""
    if not len(timeline.positions(*_SHRINKS)):
        return None
    tightest: int | None = None
    before: int | None = None  # reserved before the present run of releases
    needed = 0
    grows, shrinks = tuple(map(int, _GROWS)), tuple(map(int, _SHRINKS))
    out_of_memory, freed = int(Kind.OOM), int(Kind.FREE_REQUESTED)
    changes = timeline.positions(*_GROWS, *_SHRINKS, Kind.ALLOC, Kind.FREE_REQUESTED, Kind.OOM)
    kinds, sizes = timeline.kind[changes].tolist(), timeline.size_bytes[changes].tolist()
    for position, kind, size in zip(changes.tolist(), kinds, sizes, strict=True):
        if kind in shrinks:
            if before is None:
                before = reserved[position - 1] if position else start_reserved
            needed = 0
        elif kind in grows:
            needed += size
        else:
            if kind == out_of_memory:
                needed = size
            if before is not None and needed and kind != freed:
                tightest = before + needed - 1 if tightest is None else min(tightest, before + needed - 1)
            before, needed = None, 0
    return tightest
