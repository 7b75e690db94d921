"""Call stacks, each kept once and unfolded only when someone looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Frame:
    """One frame of a stack: where the code stands. C++ frames have line 0."""

    function: str
    file: str
    line: int


#: Lists that are numbered at once: so many that their frames' identities still lie in the processor's cache.
_PART = 8192
#: Longer lists are numbered one by one, each once: a few bytes of file can name the same endless list again and again.
_LONG = 256


class Stacks:
    """Stacks by number, innermost frame first. Number -1 is "no stack was recorded".

    Built from the frame lists of a snapshot: one list per event, whose frames are shared dicts. Two lists whose frames
    say the same are one stack. Numbers are given on demand (`number`, `numbers`), because comparing a million lists
    costs as much as loading them.
    """

    def __init__(self) -> None:
        self._by_identity: dict[tuple[int, ...], int] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._content: list[tuple[int, ...]] = []
        self._frame_by_identity: dict[int, int] = {}
        self._frame_numbers: dict[Frame, int] = {}
        self._frames: list[Frame] = []
        self._by_long_list: dict[int, int] = {}
        # An identity stays one thing's own as long as that thing lives.
        self._kept: list[object] = []

    def __len__(self) -> int:
        return len(self._content)

    def number(self, frames: Sequence[object] | None) -> int:
        """The number of the stack that this list holds; -1 for None and for an empty list."""
        if not frames:
            return -1
        if len(frames) <= _LONG:
            return self._number(tuple(frames))
        number = self._by_long_list.get(id(frames))
        if number is None:
            number = self._number(tuple(frames))
            self._by_long_list[id(frames)] = number
            self._kept.append(frames)
        return number

    def _number(self, frames: tuple[object, ...]) -> int:
        identity = tuple(map(id, frames))
        number = self._by_identity.get(identity)
        if number is None:
            content = tuple(map(self._frame_number, frames))
            number = self._by_content.setdefault(content, len(self._content))
            if number == len(self._content):
                self._content.append(content)
            self._by_identity[identity] = number
        return number

    def _frame_number(self, raw: object) -> int:
        number = self._frame_by_identity.get(id(raw))
        if number is None:
            frame = _frame(raw)
            number = self._frame_numbers.setdefault(frame, len(self._frames))
            if number == len(self._frames):
                self._frames.append(frame)
            self._frame_by_identity[id(raw)] = number
            self._kept.append(raw)
        return number

    def numbers(self, lists: Sequence[Sequence[object] | None]) -> NDArray[np.int32]:
        """The number of each. New stacks get theirs in the order of their first list, but for very deep ones."""
        result = np.empty(len(lists), np.int32)
        alone = False  # whether hardly any list so far stood for two events
        for begin in range(0, len(lists), _PART):
            part = lists[begin : begin + _PART]
            if alone:
                result[begin : begin + _PART] = self._numbers([each or () for each in part])
                continue
            # PyTorch gives the events of one block one list, and reading may have joined more.
            _, chosen, group = np.unique(
                _identities([part], len(part)), return_index=True, return_inverse=True
            )
            order = np.argsort(chosen)
            numbers = np.empty(len(chosen), np.int32)
            numbers[order] = self._numbers([part[place] or () for place in chosen[order].tolist()])
            result[begin : begin + _PART] = numbers[group.reshape(-1)]
            alone = len(chosen) > 0.9 * len(part)
        return result

    def _numbers(self, lists: list[Sequence[object]]) -> NDArray[np.int32]:
        """One number per group of lists that hold the same frames, by their identities."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        usual = np.flatnonzero((lengths > 0) & (lengths <= _LONG))
        result = np.full(len(lists), -1, np.int32)
        for place in np.flatnonzero(lengths > _LONG).tolist():
            result[place] = self.number(lists[place])
        if not len(usual):
            return result
        if len(usual) < len(lists):
            lists, lengths = [lists[place] for place in usual.tolist()], lengths[usual]
        group, chosen = _groups(lists, lengths)
        # The first one first, so that numbers rise in the order of events.
        order = np.argsort(chosen)
        numbers = np.empty(len(chosen), np.int32)
        numbers[order] = [self._number(tuple(lists[place])) for place in chosen[order].tolist()]
        result[usual] = numbers[group]
        return result

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The stack of that number. What is not a frame in a damaged file becomes "?"."""
        return () if number < 0 else tuple(map(self._frames.__getitem__, self._content[number]))


def _groups(
    lists: Sequence[Sequence[object]], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which lists, none of them empty, hold the same objects: the group of each, and one list of each group.

    Groups are found by a hash of the objects' identities and their order, and then each list is compared with the
    chosen one. Should two hashes ever collide, every list becomes a group of its own.
    """
    identity = _identities(lists, int(lengths.sum()))
    begin = np.cumsum(lengths) - lengths
    depth = np.arange(len(identity)) - np.repeat(begin, lengths)
    mixed = identity * _MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _BY_DEPTH[depth]
    _, chosen, group = np.unique(np.add.reduceat(mixed, begin), return_index=True, return_inverse=True)
    group = group.reshape(-1)
    model = chosen[group]
    if np.array_equal(lengths, lengths[model]):
        there = np.repeat(begin[model], lengths) + depth
        if np.array_equal(identity, identity[there]):
            return group, chosen
    alone = np.arange(len(lists))
    return alone, alone


def _identities(lists: Sequence[Sequence[object]], count: int) -> NDArray[np.uint64]:
    """`id` of everything in all lists, one after the other."""
    objects = chain.from_iterable(lists)
    if not _IDENTITY_IS_ADDRESS:
        return np.fromiter(map(id, objects), np.uint64, count)
    return np.frombuffer(np.fromiter(objects, object, count), np.uint64)


def _identity_is_address() -> bool:
    """Whether an array of objects is, in memory, an array of their identities: so in CPython on 64 bits."""
    some = [object(), object()]
    try:
        return bool(np.frombuffer(np.array(some), np.uint64).tolist() == list(map(id, some)))
    except (TypeError, ValueError, BufferError):
        return False


_IDENTITY_IS_ADDRESS = _identity_is_address()
_RANDOM = np.random.default_rng()
#: Odd factors, others in every process: nothing in a file can be made to collide.
_MIX = _RANDOM.integers(1 << 63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_BY_DEPTH = _RANDOM.integers(1 << 63, size=_LONG, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _frame(raw: object) -> Frame:
    if not isinstance(raw, dict):
        return Frame("?", "?", 0)
    function, file, line = raw.get("name"), raw.get("filename"), raw.get("line")
    return Frame(
        function if isinstance(function, str) else "?",
        file if isinstance(file, str) else "?",
        line if type(line) is int else 0,
    )
