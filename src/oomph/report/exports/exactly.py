"""The ends of a smaller snapshot, so that it replays as exactly as the whole.

A free records what was requested, not how large the block was: up to 1 MiB behind it may have been its own
(docs/snapshots.md, "The start of a trace"). In the whole trace the allocation tells; a window that lacks the allocation
may take such a rest for free memory, and then the search for the best fit can end elsewhere. So the layout at the
window's end is the replay's own, and a window that does not replay begins a little earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.layout import INACTIVE, SegmentState
from oomph.memory.moment import window
from oomph.memory.replay import exact, start_state
from oomph.memory.replay.pressure import moments, releases
from oomph.memory.replay.run import PoolMap, Run
from oomph.report.exports.window import whole_requests

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: How often a window may begin earlier. Each time costs a replay of what lies before it.
_MOST_TRIES = 6


@dataclass(frozen=True)
class Ends:
    """A window [first, last) and the segments after its last event."""

    first: int
    last: int
    layout: Sequence[SegmentState]


def exactly(analysis: Analysis, first: int, last: int) -> Ends:
    """The window, widened where that makes it replay exactly; as asked for where the whole trace does not either, or
    where nothing helps."""
    timeline = analysis.timeline
    asked = whole_requests(timeline, first, last)
    first, last = asked
    played = _played(analysis, last)
    layout = analysis.layout_at(last - 1) if played is None else played
    ends = Ends(first, last, layout)
    for _ in range(_MOST_TRIES):
        if first == 0 or played is None or _replays(analysis, ends):
            return ends
        earlier = _earlier(analysis, ends)
        if earlier is None:
            break
        first, last = whole_requests(timeline, earlier, last)
        ends = Ends(first, last, layout)
    return ends if _replays(analysis, ends) else Ends(*asked, layout)


def _replays(analysis: Analysis, ends: Ends) -> bool:
    return exact(ends.layout, window(analysis.timeline, ends.first, ends.last), analysis.settings).exact


def _played(analysis: Analysis, last: int) -> list[SegmentState] | None:
    """The segments before the event at `last`, as a replay from the start leaves them; None where the replay is not
    what was recorded. At the end of the trace they are in the snapshot."""
    if last >= len(analysis.timeline):
        return sorted(analysis.device.segments, key=lambda segment: segment.address)
    part = window(analysis.timeline, 0, last)
    start = analysis.start
    run = Run(
        start,
        part,
        analysis.settings,
        driver=Driver.given(),
        moments=moments(releases(part, start.reserved_bytes), None),
        pools=PoolMap.needed(part, [*start.segments, *analysis.device.segments]),
    )
    run.run()
    if run.problems or run.misses or run.addresses_right != run.addresses_total:
        return None
    layout = run.allocator.layout()
    reserved = start.reserved_bytes + int(np.sum(part.reserved_change_bytes))
    return layout if sum(segment.size for segment in layout) == reserved else None


def _earlier(analysis: Analysis, ends: Ends) -> int | None:
    """Where the window has to begin to hold the allocation of every block whose size it would get wrong; None where
    it gets all of them right, or where one is older than the trace."""
    truth = _played(analysis, ends.first)
    if truth is None:
        return None
    part = window(analysis.timeline, ends.first, ends.last)
    sizes = _sizes(start_state(ends.layout, part, analysis.settings).segments)
    wrong = [address for address, size in _sizes(truth).items() if sizes.get(address) != size]
    lives = analysis.lifetimes
    rows = np.flatnonzero((lives.born < ends.first) & (lives.done >= ends.first))
    born = lives.born[rows[np.isin(lives.address[rows], np.array(wrong, np.int64))]]
    born = born[born >= 0]
    return int(born.min()) if len(born) else None


def _sizes(segments: Sequence[SegmentState]) -> dict[int, int]:
    return {
        block.address: block.size
        for segment in segments
        for block in segment.blocks
        if block.state != INACTIVE
    }
