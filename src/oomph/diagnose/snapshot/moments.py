"""Which moment of a trace a report is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.model import How, Moment
from oomph.errors import UsageError
from oomph.memory.timeline import UNKNOWN, Kind, Timeline
from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*s$")
_WORDS = "oom, retry, peak-allocated, peak-reserved, start, end, the number of an event, or seconds (12.5s)"


def choose(analysis: Analysis, at: str | None) -> Moment:
    """The moment that was asked for; without one the last out-of-memory event that ended something, else the peak of
    what was allocated, else the end. Raises UsageError for a moment that the trace does not have."""
    timeline = analysis.timeline
    if at is not None:
        kind, position = _asked_for(analysis, at)
        return describe(analysis, kind, position)
    fatal = fatal_oom(timeline)
    traced = analysis.snapshot.traced
    # A trace knows whether the script caught what failed.
    caught = traced is not None and (traced.failed is None or not traced.failed.out_of_memory)
    if fatal is not None and not caught:
        return describe(analysis, "oom", fatal)
    if len(timeline):
        part = analysis.within
        place = part.start + int(np.argmax(analysis.allocated_bytes[part]))
        return describe(analysis, "peak allocated", place)
    return describe(analysis, "end", -1)


def fatal_oom(timeline: Timeline) -> int | None:
    """The out-of-memory event to explain: the last one, or the first of those after which nothing was allocated any
    more (an exception on its way out can meet further failures). None without one."""
    ooms = timeline.positions(Kind.OOM)
    if not len(ooms):
        return None
    allocs = timeline.positions(Kind.ALLOC)
    served = int(np.searchsorted(allocs, ooms[-1]))  # requests before the last failure
    return int(ooms[np.searchsorted(ooms, allocs[served - 1])] if served else ooms[0])


def describe(analysis: Analysis, kind: str, position: int) -> Moment:
    """The moment at `position`, with its time, phase, step and stack."""
    timeline = analysis.timeline
    if position < 0 or not len(timeline):
        return Moment(kind=kind, position=position, events=len(timeline))
    time, first = int(timeline.time_us[position]), int(timeline.time_us[0])
    known = first != UNKNOWN and time >= first  # in a damaged file, time goes backwards
    step = int(analysis.step_of(np.array([position], np.int64))[0])
    phase, how = _phase(analysis, position)
    return Moment(
        kind=kind,
        position=position,
        events=len(timeline),
        time_us=time,
        after_us=time - first if known else UNKNOWN,
        phase=phase,
        phase_how=how,
        step=step if step >= 0 else None,
        frames=analysis.frames(timeline.stack_of(position)),
    )


def _phase(analysis: Analysis, position: int) -> tuple[Phase, How]:
    """As a trace knows; by the event's own stack; else as the events around it."""
    if analysis.exact is not None:
        phase = tuple(Phase)[int(analysis.event_phase[position])]
        return phase, How.NONE if phase is Phase.UNKNOWN else How.TRACED
    stack = analysis.timeline.stack_of(position)
    if stack >= 0:
        phase = analysis.labels.of(stack).phase
        if phase is not Phase.UNKNOWN:
            return phase, How.FRAMES
    phase = tuple(Phase)[int(analysis.event_phase[position])]
    return phase, How.NONE if phase is Phase.UNKNOWN else How.LIFETIME


def _asked_for(analysis: Analysis, at: str) -> tuple[str, int]:
    timeline, word = analysis.timeline, at.strip().lower()
    if word == "start":
        return "asked for", -1
    if word == "end":
        return "end", len(timeline) - 1
    if not len(timeline):
        raise UsageError(f"--at {at}: the snapshot has no events, so it shows only its end")
    if word == "oom":
        fatal = fatal_oom(timeline)
        if fatal is None:
            raise UsageError("--at oom: no request failed in this trace")
        return "oom", fatal
    if word == "retry":
        from oomph.diagnose.snapshot.retries import retries_of

        found = retries_of(analysis)
        if not found:
            raise UsageError("--at retry: PyTorch never gave memory back to serve a request in this trace")
        return "retry", max(found, key=lambda retry: retry.needed_bytes).position - 1
    if word in ("peak", "peak-allocated"):
        return "peak allocated", int(np.argmax(analysis.allocated_bytes))
    if word == "peak-reserved":
        return "peak reserved", int(np.argmax(analysis.reserved_bytes))
    return "asked for", _place(timeline, word, at)


def _place(timeline: Timeline, word: str, at: str) -> int:
    seconds = _SECONDS.match(word)
    if seconds is not None:
        return at_time(timeline, float(seconds.group(1)), f"--at {at}")
    if word.isascii() and word.isdigit() and len(word) < 19:
        if int(word) >= len(timeline):
            raise UsageError(f"--at {at}: the trace has events 0 to {len(timeline) - 1}")
        return int(word)
    raise UsageError(f"--at {at[:60]!r} is no moment: give {_WORDS}")


def at_time(timeline: Timeline, seconds: float, option: str) -> int:
    """The last event at most `seconds` after the first. Raises UsageError, naming `option`, where times were not
    recorded or the trace is shorter."""
    if int(timeline.time_us[0]) == UNKNOWN:
        raise UsageError(f"{option}: this snapshot's events have no times; give the number of an event")
    after = elapsed_us(timeline)
    if seconds * 1e6 > int(after[-1]):
        raise UsageError(f"{option}: the trace is {int(after[-1]) / 1e6:.3f} s long")
    return max(0, int(np.searchsorted(after, seconds * 1e6, side="right")) - 1)


def elapsed_us(timeline: Timeline) -> NDArray[np.int64]:
    """Microseconds from the first event, which has a time, to each. Never falling: where a time is missing or goes
    backwards, as in a damaged file, it is that of the event before."""
    elapsed: NDArray[np.int64] = np.maximum.accumulate(timeline.time_us) - timeline.time_us[0]
    return elapsed
