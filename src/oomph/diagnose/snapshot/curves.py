"""Memory over time by category, reduced to what can be drawn, without losing a peak.

A trace of N events has N + 1 states: state 0 is before the first event, state i + 1 after event i. They are put
into buckets of neighbouring states: wide ones over the whole trace, one state each around a chosen place. A bucket
keeps the state in which most was allocated, exactly and by category, and the least that was allocated in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oomph.memory.categories import CATEGORIES
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

Ints = NDArray[np.int64]

#: Buckets over the whole trace. Four for each column of the widest screens: zooming in four times loses nothing.
OVERVIEW = 16_384
#: States around the chosen place that have a bucket of their own.
DETAIL = 16_384


@dataclass(frozen=True, eq=False)
class Curves:
    """One entry per bucket in every column; sizes are bytes.

    starts: first state of the bucket. peak: the state in it with the most allocated bytes (the first of several).
    by_category: allocated bytes in that state, one row per entry of CATEGORIES. lowest: the least that was allocated
    in any state of the bucket. reserved: the most that was reserved in it. phase: index into tuple(Phase) of the phase
    that most of its events have. time_us: microseconds from the first event to the bucket's first, never falling; None
    where times were not recorded. states: how many there are in all.
    """

    states: int
    starts: Ints
    peak: Ints
    by_category: Ints
    lowest: Ints
    reserved: Ints
    phase: NDArray[np.int8]
    time_us: Ints | None

    def __len__(self) -> int:
        return len(self.starts)


def curves(
    blocks: Lifetimes,
    category: NDArray[np.int8],
    reserved: Ints,
    phase: NDArray[np.int8],
    time_us: Ints,
    focus: int,
    *,
    overview: int = OVERVIEW,
    detail: int = DETAIL,
) -> Curves:
    """The curves of one device.

    category: index into CATEGORIES of each row of `blocks`. reserved: bytes of each state (one more than events).
    phase and time_us: of each event. focus: the position around which every event is kept.
    """
    states = blocks.events + 1
    starts = bucket_starts(states, focus + 1, overview, detail)
    total = _running(blocks, np.ones(len(blocks), bool))
    peak = _first_highest(total, starts)
    by_category = np.zeros((len(CATEGORIES), len(starts)), np.int64)
    for number in np.unique(category).tolist():
        by_category[number] = _running(blocks, category == number)[peak]
    return Curves(
        states=states,
        starts=starts,
        peak=peak,
        by_category=by_category,
        lowest=np.minimum.reduceat(total, starts),
        reserved=np.maximum.reduceat(reserved, starts),
        phase=_most_frequent(np.concatenate((phase[:1], phase)), starts),
        time_us=_times(time_us, starts),
    )


def bucket_starts(states: int, focus: int, overview: int = OVERVIEW, detail: int = DETAIL) -> Ints:
    """The first state of each bucket: at most about `overview + detail` of them, one state each near `focus`."""
    if states <= overview + detail:
        return np.arange(states, dtype=np.int64)
    width = -(-states // overview)
    first = max(0, min(focus - detail // 2, states - detail))
    coarse = np.arange(0, states, width, dtype=np.int64)
    fine = np.arange(first, min(states, first + detail), dtype=np.int64)
    return np.union1d(coarse, fine)


def important(blocks: Lifetimes, most: int = 16_384) -> NDArray[np.intp]:
    """Rows of the blocks that fill the picture, at whatever scale it is looked at; in the order of birth.

    Blocks compete by bytes x lifetime within windows of the trace: the long-lived ones of the whole trace first, then
    those that live at most a quarter of it, in each quarter, and so on down to a few events. Each scale has the same
    share of `most`. With fewer blocks than that, all are there.
    """
    born = np.maximum(blocks.born, -1)
    lasting = np.minimum(blocks.freed, blocks.events) - born
    rows = np.flatnonzero(lasting > 0)
    if len(rows) <= most:
        return rows
    span = float(blocks.events + 1)
    scales = max(1, int(np.ceil(np.log(span / 16) / np.log(4))))
    each = max(1, most // scales)
    taken = np.zeros(len(blocks), bool)
    for level in range(scales):
        windows = 4**level
        inside = rows[(lasting[rows] <= span / windows) & ~taken[rows]]
        if not len(inside):
            break
        area = blocks.size_bytes[inside] * lasting[inside].astype(np.float64)
        window = ((born[inside] + 1) * (windows / span)).astype(np.int64)
        taken[inside[_best_of_each(window, area, max(1, each // windows), each)]] = True
    return np.flatnonzero(taken)


def _best_of_each(window: Ints, area: NDArray[np.float64], of_each: int, most: int) -> NDArray[np.intp]:
    """Indices of the `of_each` largest areas of each window, of these the `most` largest."""
    order = np.lexsort((-area, window))
    sorted_window = window[order]
    begins = np.flatnonzero(np.concatenate(([True], sorted_window[1:] != sorted_window[:-1])))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    kept = order[rank < of_each]
    if len(kept) > most:
        kept = kept[np.argpartition(-area[kept], most)[:most]]
    return kept


def _running(blocks: Lifetimes, chosen: NDArray[np.bool_]) -> Ints:
    """Allocated bytes of the chosen rows in every state."""
    change = np.zeros(blocks.events + 1, np.int64)
    exists = chosen & (blocks.freed > blocks.born)
    np.add.at(change, blocks.born[exists] + 1, blocks.size_bytes[exists])
    ends = exists & (blocks.freed < blocks.events)
    np.subtract.at(change, blocks.freed[ends] + 1, blocks.size_bytes[ends])
    return np.cumsum(change)


def _first_highest(values: Ints, starts: Ints) -> Ints:
    """For each bucket the first state with its highest value."""
    highest = np.maximum.reduceat(values, starts)
    lengths = np.diff(np.append(starts, len(values)))
    candidates = np.flatnonzero(values == np.repeat(highest, lengths))
    bucket = np.searchsorted(starts, candidates, side="right") - 1
    is_first = np.concatenate(([True], bucket[1:] != bucket[:-1]))
    return candidates[is_first].astype(np.int64)


def _most_frequent(phase: NDArray[np.int8], starts: Ints) -> NDArray[np.int8]:
    """For each bucket its most frequent phase; `unknown` only where no state of it has another."""
    unknown = tuple(Phase).index(Phase.UNKNOWN)
    if not len(phase):
        return np.full(len(starts), unknown, np.int8)
    if len(starts) == len(phase):
        return phase
    counts = np.stack(
        [np.add.reduceat((phase == number).astype(np.int32), starts) for number in range(len(Phase))]
    )
    known = np.delete(counts, unknown, axis=0)
    numbers = np.delete(np.arange(len(Phase)), unknown)
    best = numbers[np.argmax(known, axis=0)]
    return np.where(known.max(axis=0) > 0, best, unknown).astype(np.int8)


def _times(time_us: Ints, starts: Ints) -> Ints | None:
    """Since the first event. State i + 1 has the time of event i, state 0 that of the first event."""
    if not len(time_us) or bool((time_us < 0).any()):
        return None
    monotone = np.maximum.accumulate(time_us)
    since: Ints = monotone[np.maximum(starts - 1, 0)] - monotone[0]
    return since


def states_of(first: int, after: Ints) -> Ints:
    """A value of each state from that of the start and those after each event."""
    return np.concatenate((np.array([first], np.int64), after))


def differences(values: Ints) -> list[int]:
    """The first value, then the change to each following one: small numbers, which pack well."""
    changes: list[int] = np.diff(values, prepend=0).tolist()
    return changes
