"""Call stacks, each kept once and unfolded only when someone looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Frame:
    """One frame of a stack: where the code stands. C++ frames have line 0."""

    function: str
    file: str
    line: int


class Stacks:
    """Stacks by number, innermost frame first. Number -1 is "no stack was recorded".

    Built from the frame lists of a snapshot: one list per event, whose frames are shared dicts. Two lists that hold
    the same dicts are one stack. Numbers are given on demand (`number`, `numbers`), because comparing a million lists
    costs as much as loading them.
    """

    def __init__(self) -> None:
        self._by_list: dict[int, int] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._raw: list[Sequence[object]] = []
        self._kept: list[Sequence[object]] = []
        self._unfolded: dict[int, tuple[Frame, ...]] = {}

    def __len__(self) -> int:
        return len(self._raw)

    def number(self, frames: Sequence[object] | None) -> int:
        """The number of the stack that this list holds; -1 for None and for an empty list."""
        if not frames:
            return -1
        known = self._by_list.get(id(frames))
        if known is not None:
            return known
        content = tuple(map(id, frames))
        number = self._by_content.get(content)
        if number is None:
            number = len(self._raw)
            self._by_content[content] = number
            self._raw.append(frames)
        self._by_list[id(frames)] = number
        self._kept.append(frames)  # its id stays its own as long as it lives
        return number

    def numbers(self, lists: Sequence[Sequence[object] | None]) -> NDArray[np.int32]:
        """The number of each."""
        number = self.number
        return np.fromiter((number(frames) for frames in lists), np.int32, len(lists))

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The stack of that number, unfolded. What is not a frame in a damaged file becomes "?"."""
        if number < 0:
            return ()
        unfolded = self._unfolded.get(number)
        if unfolded is None:
            unfolded = tuple(_frame(raw) for raw in self._raw[number])
            self._unfolded[number] = unfolded
        return unfolded


def _frame(raw: object) -> Frame:
    if not isinstance(raw, dict):
        return Frame("?", "?", 0)
    function, file, line = raw.get("name"), raw.get("filename"), raw.get("line")
    return Frame(
        function if isinstance(function, str) else "?",
        file if isinstance(file, str) else "?",
        line if type(line) is int else 0,
    )
