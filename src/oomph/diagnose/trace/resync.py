"""Sequences of requests and frees as numbers, and where two of them run together again after a difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oomph.memory.timeline import Kind, Timeline

Ints = NDArray[np.int64]

#: `born` of a block from before the sequence; `number` of a free.
NOWHERE = -1
#: (events ahead, events in a row that have to be the same): near and short first, then far and long. None: all.
_LONG, _SHORT = 16, 4
_TRIES: tuple[tuple[int | None, int], ...] = (
    (1024, _LONG),
    (1024, _SHORT),
    (16384, _LONG),
    (None, _LONG),
    (None, _SHORT),
)
#: Differences that are close together are taken apart exactly: so many events, and events to leave out, at most.
_NEAR, _MOST_EDITS = 1024, 64
#: An odd number: multiplying by it loses nothing.
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Acts:
    """Requests and frees of a part of a timeline, in order.

    `token` is size and kind in one number. `number` counts the requests (NOWHERE for a free), `born` is for a free the
    number of the request that it gives back (NOWHERE: from before, and for requests). `position` is the event's in the
    whole timeline.
    """

    token: Ints
    number: Ints
    born: Ints
    position: Ints

    def __len__(self) -> int:
        return len(self.token)

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return int(self.number.max(initial=NOWHERE)) + 1

    @classmethod
    def of(cls, timeline: Timeline, begin: int, end: int) -> Acts:
        """The sequence of the events from `begin` up to, not including, `end`."""
        kind = timeline.kind[begin:end]
        kept = np.flatnonzero((kind == Kind.ALLOC) | (kind == Kind.FREE_REQUESTED))
        request = kind[kept] == Kind.ALLOC
        size = timeline.size_bytes[begin:end][kept]
        number = np.where(request, np.cumsum(request) - 1, NOWHERE)
        address = timeline.address[begin:end][kept]
        order = np.argsort(address, kind="stable")
        born = np.full(len(kept), NOWHERE, np.int64)
        if len(order):
            before, after = order[:-1], order[1:]
            gives_back = (address[before] == address[after]) & request[before] & ~request[after]
            born[after[gives_back]] = number[before[gives_back]]
        # The size of a free is its request's, which some versions of PyTorch round.
        known = born >= 0
        size = size.copy()
        size[known] = size[request][born[known]]
        return cls(
            token=size * 2 + request,
            number=number.astype(np.int64),
            born=born,
            position=(kept + begin).astype(np.int64),
        )

    @cached_property
    def long_grams(self) -> NDArray[np.uint64]:
        """A hash of the events from each place on, 16 at a time."""
        return _grams(self.token, _LONG)

    @cached_property
    def short_grams(self) -> NDArray[np.uint64]:
        """The same, 4 at a time."""
        return _grams(self.token, _SHORT)


def common_run(a: Ints, b: Ints, i: int, j: int) -> int:
    """How many numbers are the same in `a` from `i` on and in `b` from `j` on."""
    most = min(len(a) - i, len(b) - j)
    done, step = 0, 64
    while done < most:
        size = min(step, most - done)
        differs = a[i + done : i + done + size] != b[j + done : j + done + size]
        if differs.any():
            return done + int(differs.argmax())
        done += size
        step = min(step * 4, 1 << 16)
    return most


@dataclass(frozen=True)
class Detour:
    """What lies between a difference and where both go on alike: events only in the first and only in the second, and
    the stretches (place in the first, in the second, length) that are the same in between."""

    only_first: int
    only_second: int
    alike: tuple[tuple[int, int, int], ...] = ()
    first: int = 0
    second: int = 0


def resync(ours: Acts, theirs: Acts, i: int, j: int) -> Detour | None:
    """The detour from (i, j), as short as can be found; `first` and `second` are where it ends. None where they do not
    come together any more."""
    near = _near(ours.token[i : i + _NEAR].tolist(), theirs.token[j : j + _NEAR].tolist())
    if near is not None:
        alike = tuple((i + x, j + y, run) for x, y, run in near.alike)
        return Detour(near.only_first, near.only_second, alike, i + near.first, j + near.second)
    for ahead, row in _TRIES:
        a = ours.long_grams if row == _LONG else ours.short_grams
        b = theirs.long_grams if row == _LONG else theirs.short_grams
        a, b = a[i:][:ahead], b[j:][:ahead]
        if not len(a) or not len(b):
            continue
        _, first, second = np.intersect1d(a, b, return_indices=True)
        if not len(first):
            continue
        best = int((first + second).argmin())
        x, y = int(first[best]), int(second[best])
        if (x, y) == (0, 0):  # two hashes that are the same of events that are not
            x = y = 1
        return Detour(x, y, (), i + x, j + y)
    return None


def _near(a: list[int], b: list[int]) -> Detour | None:
    """The fewest events to leave out on both sides before `_LONG` events in a row are the same, or both end (E. W.
    Myers, An O(ND) difference algorithm, 1986); None where that takes more than `_MOST_EDITS`."""
    reach = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(_MOST_EDITS + 1):
        history.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            if x > len(a) or y > len(b):
                reach[diagonal] = x
                continue
            begun = x
            while x < len(a) and y < len(b) and a[x] == b[y] and x - begun < _LONG:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            ends = x == len(a) and y == len(b) and len(a) < _NEAR and len(b) < _NEAR
            if x - begun == _LONG or ends:
                return _way(history, edits, diagonal, begun)
    return None


def _way(history: list[dict[int, int]], edits: int, diagonal: int, begun: int) -> Detour:
    """The way to the last stretch, which begins at `begun` of the first side, told backwards."""
    alike: list[tuple[int, int, int]] = []
    end = begun, begun - diagonal
    x, d, k = begun, edits, diagonal
    while d > 0:
        reach = history[d]
        down = k == -d or (k != d and reach.get(k - 1, -1) < reach.get(k + 1, -1))
        before = k + 1 if down else k - 1
        arrived = reach[before]
        # Where the stretch on this diagonal began, right after the edit.
        begin = arrived if down else arrived + 1
        if x > begin:
            alike.append((begin, begin - k, x - begin))
        x, d, k = arrived, d - 1, before
    if x > 0:
        alike.append((0, 0, x))
    return Detour((edits + diagonal) // 2, (edits - diagonal) // 2, tuple(reversed(alike)), *end)


def _grams(token: Ints, row: int) -> NDArray[np.uint64]:
    count = len(token) - row + 1
    result = np.zeros(max(0, count), np.uint64)
    values = token.astype(np.uint64) * _MIX
    values ^= values >> np.uint64(29)
    for place in range(row if count > 0 else 0):
        result = result * _MIX + values[place : place + count]
    return result
