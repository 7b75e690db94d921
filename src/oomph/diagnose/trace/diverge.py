"""A real run and a traced one, event by event: how far they are the same, and where they part.

Addresses mean nothing here. A request is its size in bytes; a free is which earlier request it gives back. Two
sequences are the same as long as both agree; `diverge` finds the first place where they do not, and then how much
differs in all, by taking up the thread again behind each difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.trace.resync import NOWHERE, Acts, common_run, resync
from oomph.memory.stacks import Frame
from oomph.memory.timeline import Kind, Timeline

#: Differences that are followed one by one; a run that has more is another run.
MOST_HUNKS = 20_000
#: Events at the start by which a recording is looked for in a trace.
_ANCHOR = 32


@dataclass(frozen=True)
class Act:
    """What one side does where they part. `what` is "alloc", "free" or "end". `position` is the event in the side's
    whole timeline. `frames` is the stack of the event, innermost first; `requested_by`, of a free, the stack of the
    request that it gives back."""

    what: str
    size_bytes: int = 0
    position: int = -1
    frames: tuple[Frame, ...] = ()
    requested_by: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Divergence:
    """A real run's requests and frees against a traced run's.

    `events_real` and `events_traced` count requests and frees that were compared; `equal_before` how many are the
    same from the start; `real` and `traced` what each side does then (None: all is the same). `only_real` and
    `only_traced` are events without a counterpart, `other_block` frees that give back another block of the same size.
    They are an upper bound: what is taken for two differences may be one. `complete` is False where the two are too
    unlike to go on to the end. `began_at` is the event of the trace at which the recording of the real run begins,
    `ends_at` the one before which it ends; `sure_of_begin`: the script itself said so, or both begin with nothing.
    """

    events_real: int
    events_traced: int
    equal_before: int
    real: Act | None
    traced: Act | None
    only_real: int
    only_traced: int
    other_block: int
    complete: bool
    began_at: int
    ends_at: int
    sure_of_begin: bool

    @property
    def same(self) -> bool:
        """Whether both sides do the same from begin to end."""
        return self.real is None and self.traced is None

    @property
    def differences(self) -> int:
        """Events that differ, at most."""
        return self.only_real + self.only_traced + self.other_block


def diverge(
    real: Timeline, traced: Timeline, window: tuple[int, int] | None = None, *, from_nothing: bool = False
) -> Divergence:
    """Compares a recording of a real run with a trace.

    `window` (begin, end) is the part of the trace that the script recorded itself, as the real run's did.
    `from_nothing`: the real recording begins before anything was allocated. Without either, its beginning is looked
    for in the trace. Raises ValueError for a window outside the trace.
    """
    begin, end = (0, len(traced)) if window is None else window
    if not 0 <= begin <= end <= len(traced):
        raise ValueError(f"The window {begin} to {end} does not lie within {len(traced)} events.")
    ours = Acts.of(real, 0, len(real))
    theirs = Acts.of(traced, begin, end)
    sure = window is not None or from_nothing
    skipped = 0
    if not from_nothing:
        skipped = _begin(ours, theirs, given=window is not None)
        if skipped:
            begin, sure = int(theirs.position[skipped]), False
            theirs = Acts.of(traced, begin, end)
    equal = _equal(ours, theirs)
    whole = equal == len(ours) == len(theirs)
    only_real, only_traced, other, complete = _count(ours, theirs)
    return Divergence(
        events_real=len(ours),
        events_traced=len(theirs),
        equal_before=equal,
        real=None if whole else _act(real, ours, equal),
        traced=None if whole else _act(traced, theirs, equal),
        only_real=only_real,
        only_traced=only_traced,
        other_block=other,
        complete=complete,
        began_at=begin,
        ends_at=end,
        sure_of_begin=sure,
    )


def _begin(ours: Acts, theirs: Acts, *, given: bool) -> int:
    """Where in the trace the recording begins: where their events are the same for longest. The recording's ring may
    have lost its oldest events, and a trace without windows does not say when it begins. 0 where nothing better is
    found."""
    length = min(_ANCHOR, len(ours), len(theirs))
    if not length:
        return 0
    there = np.ones(len(theirs) - length + 1, bool)
    for place in range(length):
        there &= theirs.token[place : place + len(there)] == ours.token[place]
    found = np.flatnonzero(there).tolist()
    if not found:
        return 0
    runs = [common_run(ours.token, theirs.token, 0, place) for place in found]
    if given and max(runs) < len(ours):
        return 0
    # Of steps that are all alike, the one from which the rest of the trace is as long as the recording.
    return int(
        max(
            zip(runs, found, strict=True),
            key=lambda one: (one[0], -abs(len(theirs) - one[1] - len(ours))),
        )[1]
    )


def _equal(ours: Acts, theirs: Acts) -> int:
    """How many events are the same from the start, in kind, size and, for a free, in the block that is freed."""
    least = min(len(ours), len(theirs))
    differs = (ours.token[:least] != theirs.token[:least]) | (ours.born[:least] != theirs.born[:least])
    return int(differs.argmax()) if differs.any() else least


def _count(ours: Acts, theirs: Acts) -> tuple[int, int, int, bool]:
    """(only in the first, only in the second, frees of another block, whether it came to the end)."""
    i = j = only_a = only_b = other = 0
    # For each request of the first, which of the second it is.
    twin = np.full(ours.requests, NOWHERE, np.int64)
    for _ in range(MOST_HUNKS):
        run = common_run(ours.token, theirs.token, i, j)
        other += _other_blocks(ours, theirs, i, j, run, twin)
        i, j = i + run, j + run
        if i == len(ours) or j == len(theirs):
            break
        detour = resync(ours, theirs, i, j)
        if detour is None:
            break
        only_a, only_b = only_a + detour.only_first, only_b + detour.only_second
        for x, y, length in detour.alike:
            other += _other_blocks(ours, theirs, x, y, length, twin)
        i, j = detour.first, detour.second
    else:
        return only_a + len(ours) - i, only_b + len(theirs) - j, other, False
    return only_a + len(ours) - i, only_b + len(theirs) - j, other, True


def _other_blocks(ours: Acts, theirs: Acts, i: int, j: int, run: int, twin: NDArray[np.int64]) -> int:
    """Notes which requests of the run belong together; counts frees that give back different ones."""
    a, b = slice(i, i + run), slice(j, j + run)
    requests = ours.number[a] >= 0
    twin[ours.number[a][requests]] = theirs.number[b][requests]
    freed_a, freed_b = ours.born[a][~requests], theirs.born[b][~requests]
    inside = (freed_a >= 0) & (freed_b >= 0)
    wrong = twin[freed_a[inside]] != freed_b[inside]
    # A block from before the recording against one from within it.
    return int(wrong.sum()) + int(((freed_a >= 0) != (freed_b >= 0)).sum())


def _act(timeline: Timeline, side: Acts, place: int) -> Act:
    """What a side does at a place of its sequence."""
    if place >= len(side):
        return Act("end")
    position = int(side.position[place])
    frames = timeline.stacks.frames(timeline.stack_of(position))
    size = int(timeline.size_bytes[position])
    if timeline.kind[position] == Kind.ALLOC:
        return Act("alloc", size, position, frames)
    born = int(side.born[place])
    by: tuple[Frame, ...] = ()
    if born >= 0:
        request = int(side.position[np.flatnonzero(side.number == born)[0]])
        by = timeline.stacks.frames(timeline.stack_of(request))
    return Act("free", size, position, frames, by)
