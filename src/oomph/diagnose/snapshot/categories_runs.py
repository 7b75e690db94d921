"""A trace as a sequence of phases, and where in it each block was born and freed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.labels_events import NUMBER
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

Ints = NDArray[np.int64]

_UNKNOWN = NUMBER[Phase.UNKNOWN]
#: `phase` of the run that stands for an out-of-memory event.
BREAK = np.int8(-1)


class Runs:
    """Requests in their order, cut where the phase changes: a run is a stretch of one phase.

    An out-of-memory event is a run of its own (phase BREAK): what is freed behind it was alive when a request failed.
    Requests of unknown phase between two of a forward belong to it (a function of the user's own between modules);
    others are a run of phase UNKNOWN: between two of a backward a whole forward may lie whose stacks say nothing.

    `phase` has one entry per run; `born` and `freed` one per block: the run in which it was requested (-1: before the
    trace) and the one in which it was freed, `count` for what was freed after the last request or not at all, -1
    before the first. `unsaid` tells of each block whether its own request had no phase. `phase_at_birth` is the phase
    of its run. `behind`: freed between the last request of that run and the first of the next.
    """

    def __init__(self, lives: Lifetimes, event_phase: NDArray[np.int8], breaks: Sequence[int] | Ints) -> None:
        self._inside = lives.born >= 0
        requests = lives.born[self._inside]
        stops = np.asarray(breaks, np.int64)
        places = np.concatenate((requests, stops))
        said = np.concatenate((event_phase[requests], np.full(len(stops), BREAK, np.int8)))
        order = np.argsort(places, kind="stable")
        places, said = places[order], said[order]
        filled = _bridge(said)
        changes = np.ones(len(filled), bool)
        changes[1:] = (filled[1:] != filled[:-1]) | (filled[1:] == BREAK)
        run = np.cumsum(changes) - 1
        self.phase: NDArray[np.int8] = filled[changes]
        self.count = len(self.phase)
        self._places, self._run = places, run
        self.born = np.full(len(lives), -1, np.int64)
        self.born[self._inside] = self.run_at(requests)
        self.freed = self.run_at(lives.freed - 1)
        late = lives.freed > (places[-1] if len(places) else -1)
        self.freed[late] = self.count
        self.behind = self._freed_behind(lives, changes)
        self.unsaid = np.zeros(len(lives), bool)
        self.unsaid[self._inside] = event_phase[requests] == _UNKNOWN
        self.phase_at_birth = np.full(len(lives), _UNKNOWN, np.int8)
        if self.count:
            self.phase_at_birth[self._inside] = self.phase[self.born[self._inside]]

    def run_at(self, positions: Ints) -> Ints:
        """The run to which each position belongs; -1 before the first request."""
        if not self.count:
            return np.full(len(positions), -1, np.int64)
        index = np.searchsorted(self._places, positions, side="right") - 1
        return np.where(index >= 0, self._run[np.maximum(index, 0)], -1).astype(np.int64)

    def _freed_behind(self, lives: Lifetimes, changes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        behind = np.zeros(len(lives), bool)
        self._last = np.append(np.flatnonzero(changes)[1:] - 1, len(changes) - 1)
        if self.count:
            index = np.searchsorted(self._places, lives.freed, side="left") - 1
            rows = np.flatnonzero(self._inside & (lives.freed < lives.events))
            behind[rows] = index[rows] == self._last[self.born[rows]]
        return behind

    def ends_at(self, positions: Ints) -> NDArray[np.bool_]:
        """Which of these positions lie behind the last request of a run and before the next run."""
        if not self.count:
            return np.zeros(len(positions), bool)
        index = np.searchsorted(self._places, positions, side="left") - 1
        ends: NDArray[np.bool_] = (index >= 0) & (index == self._last[self._run[np.maximum(index, 0)]])
        return ends

    def next(self, *phases: np.int8) -> Ints:
        """For each run (and for -1, as the last entry) the number of the next later one of these phases; `count`
        where none follows."""
        chosen = np.isin(self.phase, np.array(phases, np.int8))
        numbers = np.where(chosen, np.arange(self.count), self.count)
        at_or_after = np.minimum.accumulate(np.append(numbers, self.count)[::-1])[::-1]
        return np.append(at_or_after[1:], at_or_after[:1]).astype(np.int64)

    def has(self, phase: Phase) -> bool:
        return bool((self.phase == NUMBER[phase]).any())


def _bridge(said: NDArray[np.int8]) -> NDArray[np.int8]:
    """Unknown requests between two of a forward are the forward's."""
    known = said != _UNKNOWN
    if known.all() or not known.any():
        return said
    index = np.arange(len(said))
    before = np.maximum.accumulate(np.where(known, index, -1))
    after = np.minimum.accumulate(np.where(known, index, len(said))[::-1])[::-1]
    left = np.where(before >= 0, said[np.maximum(before, 0)], _UNKNOWN)
    right = np.where(after < len(said), said[np.minimum(after, len(said) - 1)], _UNKNOWN)
    same = ~known & (left == right) & (left == NUMBER[Phase.FORWARD])
    return np.where(same, left, said).astype(np.int8)
