"""What a piece asked about its GPU.

A piece is played with few numbers of the GPU: what partial sums take follows from how many multiprocessors it has and
how many threads each holds. So each such question is kept with its answer: on another GPU that gives the same answers
the piece is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from oomph.hardware.gpus import Gpu
from oomph.predict.sink import rounded


class Question(NamedTuple):
    """`ask` gives the answer for a GPU; `answer` is that of the GPU that was played for. event: where the answer is
    the bytes of a block that exists for a moment, the place of its events in the heap's log, else -1. most: up to so
    many bytes of such a block the template's peak is the same, and lies elsewhere (-1: not known)."""

    ask: Callable[[Gpu], object]
    answer: object
    event: int = -1
    most: int = -1

    def is_same(self, gpu: Gpu, peaks_only: bool) -> bool:
        """Whether a GPU gives the answer, or (`peaks_only`) one with which peaks and what is left are the same."""
        answer = self.ask(gpu)
        if answer == self.answer:
            return True
        return peaks_only and isinstance(answer, int) and rounded(answer) <= self.most


def same_answers(questions: Iterable[Question], gpu: Gpu | None, peaks_only: bool = False) -> bool:
    """Whether a GPU gives all answers that were given (as one that is not named does)."""
    return gpu is None or all(question.is_same(gpu, peaks_only) for question in questions)


def with_slack(
    asked: Sequence[Question], events: Sequence[int], sizes: Sequence[int], begin: int
) -> tuple[Question, ...]:
    """The questions with `most`, in the template of the events from `begin` on."""
    moments = {each.event for each in asked if each.event >= begin and each.answer}
    before = {each.event: 0 for each in asked if each.event >= begin}
    if not before:
        return tuple(asked)
    level = peak = highest = 0
    for place in range(begin, len(events)):
        if place in before:
            before[place] = level
        event = events[place]
        level += sizes[event] if event >= 0 else -sizes[~event]
        peak = max(peak, level)
        if place not in moments:
            highest = max(highest, level)
    if len(events) in before:
        before[len(events)] = level
    if highest < peak:
        return tuple(asked)
    return tuple(
        each._replace(most=highest - before[each.event]) if each.event >= begin else each for each in asked
    )
