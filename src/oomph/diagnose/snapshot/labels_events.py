"""The phase of every event of a trace.

Requests have stacks, most frees and segments have none that matters. So each ALLOC gets the phase that its stack proves
or that an annotation around it says, and everything else goes with the requests around it: frees with the one before,
new segments with the one that they were made for. A request that nothing tells is unknown even between two of the same
phase, and so is what follows an out-of-memory event until the next request: an exception on its way out frees what the
phase had kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.labels import Labels
from oomph.evidence.snapshot import Annotation
from oomph.memory.timeline import UNKNOWN, Kind, Timeline
from oomph.phases import Phase

Ints = NDArray[np.int64]

PHASES = tuple(Phase)
NUMBER = {phase: np.int8(number) for number, phase in enumerate(PHASES)}
_UNKNOWN = NUMBER[Phase.UNKNOWN]
_PASSES = np.array((NUMBER[Phase.FORWARD], NUMBER[Phase.BACKWARD]), np.int8)

#: Ranges that PyTorch names (torch/optim/optimizer.py, torch/nn/parallel/distributed.py), then what people name theirs.
_RANGES = (
    (re.compile(r"Optimizer\.step#"), Phase.OPTIMIZER),
    (re.compile(r"DistributedDataParallel\.forward$|FullyShardedDataParallel\.forward$"), Phase.FORWARD),
    (re.compile(r"_?forward(?:_pass)?$", re.IGNORECASE), Phase.FORWARD),
    (re.compile(r"_?backward(?:_pass)?$", re.IGNORECASE), Phase.BACKWARD),
    (re.compile(r"optimi[sz]er(?:_step)?$", re.IGNORECASE), Phase.OPTIMIZER),
    (re.compile(r"(?:eval(?:uation)?|validation|validate)$", re.IGNORECASE), Phase.EVAL),
)


def event_phases(
    timeline: Timeline,
    stacks: NDArray[np.int32],
    labels: Labels,
    annotations: Sequence[Annotation] = (),
    device: int = 0,
) -> NDArray[np.int8]:
    """The phase of each event as an index into `tuple(Phase)`.

    `stacks` are the stack numbers of all events, or of the ALLOC events alone. `device` is the timeline's index: an
    annotation names the device that was current on the host, and holds for the others where they have none.
    """
    total = len(timeline)
    allocs = timeline.positions(Kind.ALLOC)
    of_allocs = stacks[allocs] if len(stacks) == total and total != len(allocs) else stacks
    columns = labels.columns(of_allocs)
    phase = columns.phase.copy()
    _annotate(phase, allocs, timeline, annotations, device)
    _without_stack(phase, of_allocs, bool(columns.cpp.any()))
    return _spread(phase, allocs, timeline, labels)


def ranges(
    timeline: Timeline, annotations: Sequence[Annotation], pattern: re.Pattern[str], device: int
) -> list[tuple[int, int, str]]:
    """Annotated ranges whose name matches, as (first position, position after the last, name), in their order: those
    of this device, else of any. Ranges outside the trace, or in a trace without times, are left out; one that has no
    end was cut off by the end of the trace."""
    times = _times(timeline)
    named = [one for one in annotations if pattern.match(one.name)]
    if times is None or not named:
        return []
    own = [one for one in named if one.device == device]
    found: list[tuple[int, int, str]] = []
    begun: dict[str, list[int]] = {}
    last = int(times[-1])
    pairs: list[tuple[int, int, str]] = []
    for annotation in own or named:
        if annotation.stage == "START":
            begun.setdefault(annotation.name, []).append(annotation.time_us)
        elif annotation.stage == "END" and begun.get(annotation.name):
            pairs.append((begun[annotation.name].pop(), annotation.time_us, annotation.name))
    pairs += [(start, last, name) for name, starts in begun.items() for start in starts]
    for start, end, name in pairs:
        if end >= int(times[0]) and start <= last:
            first, after = (
                np.searchsorted(times, start, side="left"),
                np.searchsorted(times, end, side="right"),
            )
            found.append((int(first), int(after), name))
    return sorted(found)


def _times(timeline: Timeline) -> Ints | None:
    """When each event happened, never falling (threads record out of order by microseconds); None without times."""
    times = timeline.time_us
    if not len(times) or int(times[0]) == UNKNOWN:
        return None
    return np.maximum.accumulate(times)


def _annotate(
    phase: NDArray[np.int8],
    allocs: NDArray[np.intp],
    timeline: Timeline,
    annotations: Sequence[Annotation],
    device: int,
) -> None:
    """Requests without a telling stack take the phase of the range around them."""
    if not annotations:
        return
    for pattern, of_range in _RANGES:
        for first, after, _ in ranges(timeline, annotations, pattern, device):
            inside = slice(*np.searchsorted(allocs, (first, after)))
            phase[inside][phase[inside] == _UNKNOWN] = NUMBER[of_range]


def _without_stack(phase: NDArray[np.int8], stacks: NDArray[np.int32], cpp: bool) -> None:
    """Where only Python was recorded, the autograd engine's threads have no stack at all: a request without one is
    likely a backward's, if the stacks of others show a forward or a backward."""
    none = stacks < 0
    if cpp or not none.any() or not np.isin(phase[~none], _PASSES).any():
        return
    phase[none & (phase == _UNKNOWN)] = NUMBER[Phase.BACKWARD]


def _spread(
    phase: NDArray[np.int8], allocs: NDArray[np.intp], timeline: Timeline, labels: Labels
) -> NDArray[np.int8]:
    """From the requests to all events."""
    total = len(timeline)
    result = np.full(total, _UNKNOWN, np.int8)
    if not total:
        return result
    ooms = timeline.positions(Kind.OOM)
    marks = np.zeros(total, bool)
    marks[allocs] = marks[ooms] = True
    said = np.full(total, _UNKNOWN, np.int8)
    said[allocs] = phase
    # The request before each event, and the one after it.
    position = np.arange(total, dtype=np.int32)
    before = np.maximum.accumulate(np.where(marks, position, np.int32(-1)))
    result = np.where(before >= 0, said[before], _UNKNOWN)
    segments = np.isin(timeline.kind, np.array((Kind.SEGMENT_ALLOC, Kind.SEGMENT_MAP), np.int8))
    made = np.flatnonzero(segments)
    if len(made) and len(allocs):
        following = np.searchsorted(allocs, made)
        there = following < len(allocs)
        result[made[there]] = said[allocs[following[there]]]
    if len(ooms):
        own = labels.columns(timeline.stack_ids(ooms)).phase
        earlier = np.where(ooms > 0, before[ooms - 1], -1)
        around = np.where(earlier >= 0, said[np.maximum(earlier, 0)], _UNKNOWN)
        result[ooms] = np.where(own != _UNKNOWN, own, around)
    return result
