"""Memory of the device that PyTorch had before and something else had at the failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis


def growth_before(analysis: Analysis, position: int, available_bytes: int) -> int:
    """By how many bytes what PyTorch can have in all fell before the event at `position`, where it was
    `available_bytes` (reserved + free); at least so much, since only what PyTorch really had is known. 0 when nothing
    shows a fall.

    What PyTorch had reserved at any moment, and reserved + free at an earlier failure, was there for it then.
    """
    reserved = analysis.reserved_bytes[: position + 1]
    most = max(analysis.start.reserved_bytes, int(reserved.max(initial=0)))
    for earlier, free in analysis.timeline.free_bytes.items():
        if earlier < position:
            most = max(most, int(analysis.reserved_bytes[earlier]) + free)
    return max(0, most - available_bytes)
