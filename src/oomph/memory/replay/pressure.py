"""How much memory the device had for PyTorch, told from a trace that ran into the limit.

A device that was full left two kinds of marks: an OOM, at which the driver's own free bytes are recorded, and a
retry: cached memory was released right before a segment was asked for. The second looks like `empty_cache` before a
large request, so a capacity that follows from it is only a candidate until a replay with it gives the recorded
sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oomph.memory.timeline import Kind, Timeline

_GROWS = (Kind.SEGMENT_ALLOC, Kind.SEGMENT_MAP)
_SHRINKS = (Kind.SEGMENT_FREE, Kind.SEGMENT_UNMAP)


@dataclass
class Release:
    """Consecutive recorded releases. `position`: of the first. `before_bytes`: reserved before it. `needed_bytes`:
    what was asked of the driver right after the last (or in vain, at an OOM); 0 when nothing was."""

    position: int
    before_bytes: int
    needed_bytes: int = 0

    @property
    def bound_bytes(self) -> int | None:
        """The capacity is below this, if it was its lack that led to the release; None when nothing was asked for, or
        where the trace gives back more than there was: nothing can be said of such a file."""
        if not self.needed_bytes or self.before_bytes < 0:
            return None
        return self.before_bytes + self.needed_bytes


def releases(timeline: Timeline, start_reserved_bytes: int) -> list[Release]:
    """All releases of the trace, in order."""
    result: list[Release] = []
    if not len(timeline.positions(*_SHRINKS)):
        return result
    reserved = start_reserved_bytes + np.cumsum(timeline.reserved_change_bytes)
    changes = timeline.positions(*_GROWS, *_SHRINKS, Kind.ALLOC, Kind.FREE_REQUESTED, Kind.OOM)
    kinds = timeline.kind[changes]
    done = 0
    for begin in np.flatnonzero(np.isin(kinds, np.array(_SHRINKS, np.int8))).tolist():
        if begin >= done:
            position = int(changes[begin])
            release = Release(position, int(reserved[position - 1]) if position else start_reserved_bytes)
            result.append(release)
            done = _follow(timeline, changes[begin:], release) + begin
    return result


def _follow(timeline: Timeline, changes: NDArray[np.intp], release: Release) -> int:
    """How many of these changes, the first of them the release's first, make up the release and what was asked of the
    driver right after it; adds that to the release. One that is followed by another release ends before that."""
    asking = False
    for count, position in enumerate(changes):
        kind, size = int(timeline.kind[position]), int(timeline.size_bytes[position])
        if kind in _SHRINKS and not asking:
            continue
        if kind in _GROWS:
            release.needed_bytes += size
            asking = True
        elif kind == Kind.OOM and not asking:
            release.needed_bytes = size
            return count + 1
        else:
            return count
    return len(changes)


def capacities(
    timeline: Timeline, start_reserved_bytes: int, found: Sequence[Release] | None = None
) -> list[int]:
    """Capacities (bytes that PyTorch could reserve in all) that the trace allows, best first; empty when it shows no
    pressure. `found` are the trace's `releases`, if they are known.

    At least the most that was reserved. After an OOM it is known: reserved + free on the device. After retries it is
    below what would have been reserved without them. A release before a request that would have fitted into what was
    reserved at other times was no retry.
    """
    reserved = start_reserved_bytes + np.cumsum(timeline.reserved_change_bytes)
    least = max(start_reserved_bytes, int(reserved.max(initial=0)))
    result = []
    for position, free in timeline.free_bytes.items():
        result.append(int(reserved[position]) + free)
    if found is None:
        found = releases(timeline, start_reserved_bytes)
    bounds = [each.bound_bytes for each in found if each.bound_bytes is not None and each.bound_bytes > least]
    if bounds:
        most = min(bounds) - 1
        result += [(least + most) // 2, least, most]
    return [capacity for capacity in dict.fromkeys(result) if capacity >= least]


def moments(found: Sequence[Release], capacity_bytes: int | None) -> frozenset[int]:
    """Where cached memory was released although the device was not full: there a replay has to be told. All of the
    trace's releases when no capacity is known."""
    return frozenset(
        each.position
        for each in found
        if capacity_bytes is None or each.bound_bytes is None or each.bound_bytes <= capacity_bytes
    )
