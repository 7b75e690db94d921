"""One device at one moment of its trace: the segments and blocks, told from the end backwards."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.allocator.layout import SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay.start import start_state
from oomph.memory.timeline import Timeline


def window(timeline: Timeline, first: int, last: int) -> Timeline:
    """The events from position `first` up to, not including, `last`."""
    first, last = max(0, first), min(len(timeline), last)
    part = slice(first, max(first, last))
    return timeline.part(part)


def layout_at(
    final: Sequence[SegmentState],
    timeline: Timeline,
    position: int,
    settings: AllocatorSettings | None = None,
) -> list[SegmentState]:
    """Every segment and block after the event at `position` (-1: when the trace begins), from the segments at the
    trace's end (`final`) with the later events undone. Segments are in address order."""
    if position >= len(timeline) - 1:
        return sorted(final, key=lambda segment: segment.address)
    return start_state(final, window(timeline, position + 1, len(timeline)), settings).segments
