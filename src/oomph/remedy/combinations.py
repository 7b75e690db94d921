"""Looks at combinations of changes for those that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oomph.errors import UsageError
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes import Change
from oomph.remedy.choice import Choice
from oomph.remedy.costs import cost
from oomph.remedy.floor import floor_bytes
from oomph.remedy.room import Predictor, quickly, room_elsewhere, upper

_LARGEST = 6
#: How far a change is from the same training: nothing, rounding, other mathematics.
_DISTANCE = {"unchanged": 0, "close": 1, "changed": 10}
#: Changes of the layout of ranks are one step further than their numerics: more than a setting follows from them.
_LAYOUT = ("model-parallel",)
#: Axes that lower no allocated bytes of a plan.
_NOT_SEARCHED = ("allocator", "load")
#: Share of the peak that a change has to free to be named.
_WORTH = 0.01
#: Of an axis with many values (micro-batches), so many are tried.
_VALUES = 6


class Combinations:
    """Combinations level by level: each with one change more than those of the level before.

    One that fits is not made larger, unless a further change makes it faster; and where a value fits (a micro-batch of
    4), no stronger one is looked at (of 2).
    """

    def __init__(self, job: Job, room_bytes: int, headroom: float, predictor: Predictor, most: int) -> None:
        self._job = job
        self._room = room_bytes
        self._headroom = headroom
        self._predict = predictor
        self._most = most
        self.fitting: list[Choice] = []
        self.nearest: Choice | None = None
        self.tried = 0
        self.complete = True

    def run(self, offered: Mapping[str, tuple[Change, ...]], failing: frozenset[Phase]) -> None:
        """Looks at combinations of changes that can lower a phase that fails."""
        items = [
            (number, change)
            for number, (axis, changes) in enumerate(offered.items())
            if axis not in _NOT_SEARCHED
            for change in _thinned([each for each in changes if each.phases & failing])
        ]
        self._items = items
        done: dict[tuple[int, ...], Choice] = {}
        level: list[tuple[int, ...]] = [()]
        for _ in range(_LARGEST):
            following: list[tuple[int, ...]] = []
            for combination in level:
                for extended in self._extended(combination):
                    if self.tried >= self._most:
                        self.complete = False
                        return
                    if self._look(extended, done):
                        following.append(extended)
            level = following
            if not level:
                return

    def _extended(self, combination: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """With one more change, of an axis behind those that it has: each set is made once."""
        last = self._items[combination[-1]][0] if combination else -1
        for place, (axis, _) in enumerate(self._items):
            if axis > last:
                yield (*combination, place)

    def _look(self, combination: tuple[int, ...], done: dict[tuple[int, ...], Choice]) -> bool:
        """Predicts a combination; whether larger ones are worth a look."""
        milder = self._milder(combination, done)
        if milder is not None:
            done[combination] = milder
            return False
        job = self._changed(combination)
        if job is None:
            return False
        self.tried += 1
        if self._is_hopeless(job):
            return True
        choice = self._choice(combination, job)
        if choice is None:
            return False
        smaller = [
            done[part]
            for part in (combination[:place] + combination[place + 1 :] for place in range(len(combination)))
            if part in done
        ]
        if choice.upper_bytes <= choice.room_bytes:
            done[combination] = choice
            if all(choice.cost.per_token < each.cost.per_token for each in smaller):
                self.fitting.append(choice)
            return False
        if smaller:  # what fitted fits no longer
            return False
        nearest = self.nearest
        if nearest is None or choice.upper_bytes < nearest.upper_bytes:
            self.nearest = choice
        return True

    def _milder(self, combination: tuple[int, ...], done: dict[tuple[int, ...], Choice]) -> Choice | None:
        """The same combination with a milder value of one of its changes, where that fits."""
        for place, item in enumerate(combination):
            axis, change = self._items[item]
            other = item - 1
            while other >= 0 and self._items[other][0] == axis and self._items[other][1].code == change.code:
                found = done.get((*combination[:place], other, *combination[place + 1 :]))
                if found is not None:
                    return found
                other -= 1
        return None

    def _changed(self, combination: tuple[int, ...]) -> Job | None:
        """The combination as a job; None where a change does not apply after those before it."""
        job = self._job
        for place in combination:
            change = self._items[place][1]
            if change.applies(job) is not None:
                return None
            job = change.apply(job)
        return job

    def is_worth(self, change: Change) -> bool:
        """Whether the change alone lowers the peak; of another GPU, whether the job fits it as it is."""
        job = change.apply(self._job)
        try:
            if change.axis == "machine":
                return upper(job, self._predict(job)) <= self._room_of(job)
            return self._predict(job) < (1 - _WORTH) * self._predict(self._job)
        except UsageError:
            return False

    def _room_of(self, job: Job) -> int:
        return room_elsewhere(self._room, self._job, job, self._headroom)

    def _is_hopeless(self, job: Job) -> bool:
        """Whether weights and states alone are too much: then only further changes can help."""
        if self._predict is not quickly:
            return False
        try:
            return floor_bytes(job) > self._room_of(job)
        except UsageError:
            return False

    def _choice(self, combination: tuple[int, ...], job: Job) -> Choice | None:
        """The combination with its prediction; None where it is not modelled."""
        changes = [self._items[place][1] for place in combination]
        try:
            peak = self._predict(job)
            its = cost(job)
        except UsageError:
            return None
        distance = sum(_DISTANCE[change.numerics] + (change.axis in _LAYOUT) for change in changes)
        return Choice(tuple(changes), job, peak, upper(job, peak), self._room_of(job), its, distance)


def _thinned(changes: list[Change]) -> list[Change]:
    """At most a few values of one kind of change, the first and the last among them."""
    kinds: dict[str, list[Change]] = {}
    for change in changes:
        kinds.setdefault(change.code, []).append(change)
    kept: list[Change] = []
    for values in kinds.values():
        if len(values) <= _VALUES:
            kept += values
            continue
        step = (len(values) - 1) / (_VALUES - 1)
        kept += [values[round(place * step)] for place in range(_VALUES)]
    return kept
