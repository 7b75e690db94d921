"""Training steps in a trace, and the phase of every event (`event_phases`).

`find_steps(timeline, event_phase, annotations, device)` asks, in this order:

1. ranges called ProfilerStep#N (torch.profiler);
2. Optimizer.step ranges, which PyTorch names itself: a step ends with the optimizer's;
3. optimizer phases by frames: a step begins with the first forward after one. Several backward passes per optimizer
   step (gradient accumulation) are one step, and so is an optimizer that steps inside backward, parameter by parameter;
4. forward after backward, where no optimizer allocates;
5. where no stack speaks at all: a sequence of request sizes that repeats.

`Steps.first_positions` holds where each step begins that was begun, also one that the trace cuts off; the step of a
position p is searchsorted(first_positions, p, "right") - 1. `Steps.count` leaves out those of which less than half is
there, so it can be smaller than their number. What is requested between two steps (a batch on its way to the device)
belongs to the later one, except for what evaluates, saves or loads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.labels_events import NUMBER, event_phases, ranges
from oomph.diagnose.snapshot.model import How, Steps
from oomph.diagnose.snapshot.steps_period import find_period
from oomph.evidence.snapshot import Annotation
from oomph.memory.timeline import Kind, Timeline
from oomph.phases import Phase

__all__ = ["event_phases", "find_steps"]

Ints = NDArray[np.int64]

_PROFILER_STEP = re.compile(r"ProfilerStep#\d+$")
_OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
_FORWARD, _BACKWARD, _OPTIMIZER = (
    NUMBER[phase] for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
)
_TRAINING = np.array((_FORWARD, _BACKWARD, _OPTIMIZER), np.int8)
#: Turns between passes that drop gradients drop about the same, and at least ten times what others drop.
_ALIKE, _NOTHING = 0.5, 0.05
#: Requests before the first one of a known phase that are a forward, as a part of the step's others.
_LEAD = 0.1
_OTHER = np.array(
    [NUMBER[one] for one in (Phase.INIT, Phase.LOAD, Phase.EVAL, Phase.GENERATE, Phase.SAVE)], np.int8
)


def find_steps(
    timeline: Timeline,
    event_phase: NDArray[np.int8],
    annotations: Sequence[Annotation] = (),
    device: int = 0,
) -> Steps:
    """The training steps of one device's trace. A trace of inference has none; `why` says so."""
    requests = _Requests.of(timeline, event_phase)
    if not len(requests.positions):
        return _none("the trace has no requests")
    by_profiler = _by_profiler(timeline, annotations, device)
    if by_profiler is not None:
        return by_profiler
    ends = _optimizer_ends(timeline, annotations, requests, device)
    if len(ends):
        return requests.steps(ends, How.ANNOTATIONS, Certainty.CERTAIN, "PyTorch named each optimizer step")
    if not requests.has(_BACKWARD) and not requests.has(_OPTIMIZER):
        if requests.speaks:
            return _none("no backward and no optimizer step in the trace")
        return find_period(timeline)
    return _by_frames(timeline, requests)


def _none(why: str) -> Steps:
    return Steps(count=0, how=How.NONE, certainty=Certainty.POSSIBLE, why=why)


@dataclass(frozen=True, eq=False)
class _Requests:
    """The ALLOC events: positions and phases; `training` are the indices of those in forward, backward, optimizer, or
    where no forward and no backward is known, of all that are not in another phase."""

    positions: Ints
    phase: NDArray[np.int8]
    training: NDArray[np.intp]

    @classmethod
    def of(cls, timeline: Timeline, event_phase: NDArray[np.int8]) -> _Requests:
        positions = timeline.positions(Kind.ALLOC)
        phase = event_phase[positions]
        known = bool(np.isin(phase, _TRAINING[:2]).any())
        trains = np.isin(phase, _TRAINING) if known else ~np.isin(phase, _OTHER)
        return cls(positions, phase, np.flatnonzero(trains))

    @property
    def speaks(self) -> bool:
        """Whether any phase is known."""
        return bool((self.phase != NUMBER[Phase.UNKNOWN]).any())

    def has(self, phase: np.int8) -> bool:
        return bool((self.phase == phase).any())

    def begins(self, ends: Ints) -> Ints:
        """Where steps begin, as indices of requests: the first step, and one after each end (the index of a request,
        the last of its step) behind which training goes on."""
        if not len(self.training):
            return np.zeros(0, np.int64)
        is_other = np.isin(self.phase, _OTHER)
        last_other = np.maximum.accumulate(np.where(is_other, np.arange(len(self.phase)), -1))
        ends = np.concatenate((np.array([-1], np.int64), ends))
        following = np.searchsorted(self.training, ends, side="right")
        there = following < len(self.training)
        following, ends = self.training[following[there]], ends[there]
        return np.unique(np.maximum(ends, last_other[following]) + 1)

    def steps(self, ends: Ints, how: How, certainty: Certainty, why: str) -> Steps:
        """Steps that end with these requests (indices)."""
        begins = self.begins(ends)
        firsts = tuple(self.positions[begins].tolist())
        count = self._count(begins, ends)
        cut = len(firsts) - count
        if cut:
            why += f"; {'one more is' if cut == 1 else f'{cut} more are'} cut off by the trace"
        return Steps(count=count, how=how, certainty=certainty, why=why, first_positions=firsts)

    def _count(self, begins: Ints, ends: Ints) -> int:
        """Steps of which at least half is there: by the number of their requests, where a whole one is there to
        compare with; else those with a forward and a backward."""
        if not len(begins):
            return 0
        bounds = np.append(begins, len(self.phase))
        sizes = np.diff(np.searchsorted(self.training, bounds))
        ended = np.searchsorted(ends, bounds[1:], side="left") > np.searchsorted(ends, begins, side="left")
        begun = np.ones(len(begins), bool)
        # A forward whose stacks say nothing leads the first step, if it is more than a batch on its way.
        leads = int((self.phase[begins[0] : self.training[0]] == NUMBER[Phase.UNKNOWN]).sum())
        begun[0] = (
            self.phase[self.training[0]] in (_FORWARD, NUMBER[Phase.UNKNOWN]) or leads >= sizes[0] * _LEAD
        )
        whole = ended & begun
        if not whole.any():
            both = [
                bool((part == _FORWARD).any() and (part == _BACKWARD).any())
                for part in (self.phase[a:b] for a, b in pairwise(bounds.tolist()))
            ]
            return sum(both)
        most = sizes * 2 >= np.median(sizes[whole])
        backward = np.add.reduceat((self.phase == _BACKWARD).astype(np.int64), begins)
        if backward[whole].any():
            # Forwards behind the last step that go into no backward may be an evaluation.
            most &= backward > 0
        return int((whole | most).sum())


def _by_profiler(timeline: Timeline, annotations: Sequence[Annotation], device: int) -> Steps | None:
    """Steps that torch.profiler counted."""
    found = ranges(timeline, annotations, _PROFILER_STEP, device)
    firsts = sorted({first for first, _, _ in found if first < len(timeline)})
    if not firsts:
        return None
    return Steps(
        count=len(firsts),
        how=How.ANNOTATIONS,
        certainty=Certainty.CERTAIN,
        why="torch.profiler marked each step",
        first_positions=tuple(firsts),
    )


def _optimizer_ends(
    timeline: Timeline, annotations: Sequence[Annotation], requests: _Requests, device: int
) -> Ints:
    """The last request of each optimizer step that PyTorch named. Where several optimizers take turns, the one that
    stepped last counts; optimizer steps without forward or backward in between are one."""
    found = ranges(timeline, annotations, _OPTIMIZER_STEP, device)
    if not found:
        return np.zeros(0, np.int64)
    names = [name for _, _, name in found]
    chosen = max(reversed(list(dict.fromkeys(names))), key=names.count)
    after = np.array([end for _, end, name in found if name == chosen], np.int64)
    ends = np.searchsorted(requests.positions, after) - 1
    ends = np.unique(ends[ends >= 0])
    # Of ends without training work between them the last one stands.
    work = requests.training[requests.phase[requests.training] != _OPTIMIZER]
    between = np.searchsorted(work, ends, side="right")
    if len(work) and len(ends):
        last = np.append(between[1:] != between[:-1], True)
        ends = ends[last]
    return ends.astype(np.int64)


def _by_frames(timeline: Timeline, requests: _Requests) -> Steps:
    training, phase = requests.training, requests.phase[requests.training]
    opens = _FORWARD if (phase == _FORWARD).any() else _BACKWARD
    turns = np.flatnonzero((phase[:-1] != opens) & (phase[1:] == opens))
    optimizer = np.cumsum(phase == _OPTIMIZER)
    stepped = np.flatnonzero(np.diff(optimizer[turns], prepend=0) > 0)
    if len(stepped) == 1 and len(turns) - 1 - stepped[0] >= 2:
        # An optimizer that allocates its state in its first step and nothing later.
        passes = int(stepped[0]) + 1
        why = "the optimizer allocates in the first step only"
    elif not optimizer[-1]:
        passes = 1
        why = "no optimizer step shows in the trace"
    else:
        ends = _ending(training, turns[stepped], phase, _OPTIMIZER)
        why = "by stacks: a step ends where an optimizer's work is followed by the next forward"
        return requests.steps(ends, How.FRAMES, Certainty.LIKELY, why)
    last_backward = np.maximum.accumulate(np.where(phase == _BACKWARD, np.arange(len(phase)), 0))
    places = requests.positions[training]
    dropping = _drops(timeline, places[last_backward[turns]], places[turns + 1])
    if dropping is not None:
        turns = turns[dropping]
        why = f"a backward behind which gradients are dropped ends each step; {why}"
    else:
        turns = turns[passes - 1 :: passes]
        each = "a backward" if passes == 1 else f"every {passes} backward passes"
        why = f"{each} before a forward ends each step; {why}"
    ends = _ending(training, turns, phase, _BACKWARD)
    return requests.steps(ends, How.FRAMES, Certainty.POSSIBLE, why)


def _drops(timeline: Timeline, begins: Ints, ends: Ints) -> NDArray[np.bool_] | None:
    """Between which of these positions (from a backward's last request to the next forward) gradients are dropped,
    where some drop them and others (gradient accumulation) do not; None where all are alike."""
    frees = np.where(timeline.kind == Kind.FREE_REQUESTED, timeline.size_bytes, 0)
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(frees)))
    dropped = sums[ends] - sums[begins]
    most = int(dropped.max(initial=0))
    high, low = dropped >= most * _ALIKE, dropped <= most * _NOTHING
    return high if high.any() and low.any() and (high | low).all() else None


def _ending(
    training: NDArray[np.intp], turns: NDArray[np.intp], phase: NDArray[np.int8], closes: np.int8
) -> Ints:
    """The requests (indices) that end steps: those before the turns, and the trace's last one if it closes a step."""
    ends = training[turns]
    if len(phase) and phase[-1] == closes:
        ends = np.append(ends, training[-1])
    return ends.astype(np.int64)
