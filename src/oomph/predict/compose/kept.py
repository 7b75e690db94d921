"""Pieces that were played, by what decides how.

A search asks for the same piece on many kinds of GPUs, of which most give the same answers to what a piece asks
(engine/asked.py): then it is played once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from oomph.predict.compose.keys import number_of
from oomph.predict.compose.mode import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.asked import Question, same_answers

_QUESTIONS = "_questions_of_pieces"


class Asking(Protocol):
    """What has asked questions."""

    @property
    def asked(self) -> tuple[Question, ...]:
        """The questions, with their answers."""
        ...


Made = TypeVar("Made", bound=Asking)


class Kept(Generic[Made]):
    """Pieces of one kind, made by `make` where none is there; with `most` of them, all are forgotten."""

    def __init__(self, make: Callable[[Setup, Mode], Made], most: int) -> None:
        self._make = make
        self._most = most
        self._played: dict[tuple[int, Mode], list[Made]] = {}
        self._exact: dict[tuple[int, Mode, object], Made] = {}

    def of(self, setup: Setup, mode: Mode) -> Made:
        """The piece of a setup, in a mode; for one that asks for peaks only, one with the same peaks."""
        number = number_of(setup)
        asked: dict[int, tuple[Question, ...]] | None = setup.__dict__.get(_QUESTIONS)
        key = (number, mode, (None if setup.gpu is None else setup.gpu.short_name, asked is None))
        made = self._exact.get(key)
        if made is None:
            made = self._exact[key] = self._alike(number, setup, mode, asked is not None)
        if asked is not None:
            asked[id(made)] = made.asked
        return made

    def _alike(self, number: int, setup: Setup, mode: Mode, peaks_only: bool) -> Made:
        for each in self._played.get((number, mode), ()):
            if same_answers(each.asked, setup.gpu, peaks_only):
                return each
        made = self._make(setup, mode)
        if len(self._exact) >= self._most:
            self._exact.clear()
            self._played.clear()
        self._played.setdefault((number, mode), []).append(made)
        return made


def ask_for_peaks(setup: Setup) -> None:
    """From here on the setup is given pieces with the right peaks, whose blocks of a moment may be another GPU's."""
    setup.__dict__[_QUESTIONS] = {}


def questions_of(setup: Setup) -> tuple[Question, ...]:
    """What the pieces that such a setup was given have asked."""
    asked: dict[int, tuple[Question, ...]] = setup.__dict__[_QUESTIONS]
    return tuple(question for each in asked.values() for question in each)
