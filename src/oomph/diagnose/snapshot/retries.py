"""Requests that were served only after PyTorch had given cached memory back to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import Retry
from oomph.memory.replay.pressure import Release, releases
from oomph.memory.stacks import Frame
from oomph.memory.timeline import Kind, Timeline
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

_SHRINKS = (Kind.SEGMENT_FREE, Kind.SEGMENT_UNMAP)
_GROWS = (Kind.SEGMENT_ALLOC, Kind.SEGMENT_MAP)


def retries_of(analysis: Analysis) -> list[Retry]:
    """All of the trace, in order. A release that the user asked for (empty_cache), or one after which the request
    failed all the same, is none."""
    timeline = analysis.timeline
    found = releases(timeline, analysis.start.reserved_bytes)
    stacks = timeline.stack_ids([release.position for release in found]).tolist()
    by_stack = {stack: analysis.frames(stack) for stack in set(stacks)}
    asked_by_stack = {stack: by_user(frames) for stack, frames in by_stack.items()}
    positions = np.array([release.position for release in found], np.int64)
    ends = _ends(timeline, positions)
    allocs = np.append(timeline.positions(Kind.ALLOC), len(timeline))
    requests = allocs[np.searchsorted(allocs, ends)].tolist()
    result = []
    for release, last, stack, request in zip(found, ends.tolist(), stacks, requests, strict=True):
        # Only what was followed by more memory served a request.
        if last == len(timeline) or timeline.kind[last] not in _GROWS:
            continue
        frames, asked = by_stack[stack], asked_by_stack[stack]
        if asked:
            continue
        if analysis.settings.garbage_collection_threshold > 0:
            asked = None  # the allocator's own collection looks the same
        result.append(_retry(analysis, release, last, request, frames, asked))
    return result


def _retry(
    analysis: Analysis,
    release: Release,
    last: int,
    request: int,
    frames: tuple[Frame, ...],
    asked: bool | None,
) -> Retry:
    timeline, count = analysis.timeline, last - release.position
    giver = "the driver" if analysis.exact is None else "the simulated card"
    released = int(timeline.size_bytes[release.position : last].sum())
    asked_bytes = int(timeline.size_bytes[request]) if request < len(timeline) else 0
    bound = release.bound_bytes
    says = (
        f"a request of {format_bytes(asked_bytes)} needed {format_bytes(release.needed_bytes)} more from {giver}, "
        f"which had no room; PyTorch gave back {format_bytes(released)} of cached memory ({count} "
        f"{'segment' if count == 1 else 'segments'}), asked again and got it"
    )
    if bound is not None:
        says += f". So the device had less than {format_bytes(bound)} for PyTorch"
    if asked is None:
        says += ". Nothing tells it for sure from a release for another reason right before a large request"
    return Retry(
        position=release.position,
        released_bytes=released,
        segments=count,
        request_bytes=asked_bytes,
        needed_bytes=release.needed_bytes,
        bound_bytes=bound,
        certainty=Certainty.POSSIBLE if asked is None else Certainty.CERTAIN,
        says=says + ".",
        frames=frames,
    )


def by_user(frames: tuple[Frame, ...]) -> bool | None:
    """Whether a release was asked for: True for empty_cache, False for one inside of a request, None when the stack
    does not tell. C++ frames name the allocator's functions; Python's show empty_cache alone."""
    for frame in frames:
        name = frame.function
        if "emptyCache" in name or name == "empty_cache":
            return True
        if "::malloc" in name or "alloc_block" in name:
            return False
    # A stack of Python alone: a call of empty_cache would be its innermost frame.
    return False if frames and frames[0].file.endswith(".py") else None


def _ends(timeline: Timeline, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each position the first one from there on at which no memory is released."""
    other = np.append(np.flatnonzero(~np.isin(timeline.kind, np.array(_SHRINKS, np.int8))), len(timeline))
    ends: NDArray[np.int64] = other[np.searchsorted(other, firsts)]
    return ends
