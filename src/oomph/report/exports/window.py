"""Which events an export holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.errors import UsageError
from oomph.memory.timeline import Kind, Timeline

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Most events of a smaller snapshot whose window nobody named: about 10 MB, which PyTorch's page opens in seconds. It
#: draws the 15,000 largest blocks of what it is given.
MOST_EVENTS = 100_000
#: What one request asks of the driver comes right before its ALLOC (or OOM) event.
_OF_THE_DRIVER = frozenset({Kind.SEGMENT_ALLOC, Kind.SEGMENT_FREE, Kind.SEGMENT_MAP, Kind.SEGMENT_UNMAP})


def around_the_moment(analysis: Analysis) -> tuple[int, int]:
    """From the beginning of the step before the moment's to the moment, which is the last event; where no steps are
    known, or two steps are more, the last `MOST_EVENTS` up to the moment.

    What fills a card at its worst was allocated in the step that was under way, or is there since before it; the step
    before shows what is usual. Blocks that are older are in the segments, with their stacks.
    """
    last = analysis.moment.position + 1
    firsts = analysis.steps.first_positions if last else ()
    begun = [first for first in firsts if first < last]
    first = begun[-2] if len(begun) > 1 else 0
    return max(first, last - MOST_EVENTS, 0), last


def chosen(analysis: Analysis, first: int | None, last: int | None) -> tuple[int, int]:
    """The window [first, last) within the trace; an end that is not given is the trace's. Raises UsageError for a
    window without events."""
    events = len(analysis.timeline)
    begin = 0 if first is None else max(0, first)
    end = events if last is None else min(events, last)
    if begin >= end and not (first is None and last is None):
        there = f"the trace has events 0 to {events - 1}" if events else "the snapshot has no history"
        asked = f"{begin}:{'' if last is None else last}"
        raise UsageError(f"the window {asked} holds no events; {there}")
    return begin, end


def whole_requests(timeline: Timeline, first: int, last: int) -> tuple[int, int]:
    """The window widened so that no request is cut from what it asked of the driver: a replay of half of a release
    would release all of it."""
    kinds = timeline.kind
    while 0 < first < last and int(kinds[first - 1]) in _OF_THE_DRIVER:
        first -= 1
    while first < last < len(timeline) and int(kinds[last - 1]) in _OF_THE_DRIVER:
        last += 1
    return first, last
