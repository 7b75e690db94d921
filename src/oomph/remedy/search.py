"""Which combinations of changes make a job fit, and what each costs.

Combinations grow one change at a time. One that fits is not made larger, unless a further change makes it faster, and
where a value fits (a micro-batch of 4) no stronger one is looked at (of 2), so that each answer has only changes that
it needs. The answers are those that no other beats in time per token, memory, fidelity and effort at once. Differences
of 2 % in time are none, as estimates are no finer; nor are those of a fifth in memory, as what is saved beyond what
fits is of little use. The first few are then played through the simulated allocator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import log

from oomph.errors import UsageError
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.remedy.changes import ALLOWANCES, Change, axes
from oomph.remedy.changes.shard import Shard
from oomph.remedy.costs import Cost, cost
from oomph.remedy.floor import floor_bytes
from oomph.remedy.pareto import pareto
from oomph.remedy.room import Planner, Predictor, planned, predicted, quickly, room_elsewhere, room_of, upper
from oomph.remedy.starving import loads_once, shortage

#: Combinations that are looked at, at most.
MOST = 20_000
#: Of whole predictions, where a search by a few layers was wrong.
_WHOLE = 300
#: Choices that are returned, at most, and of them played through the allocator.
SHOWN, REPLAYED = 8, 3
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


@dataclass(frozen=True)
class Choice:
    """A combination that fits. `peak_bytes`: highest allocated bytes; `upper_bytes`: the upper end of it, which fits
    in `room_bytes`.
    `fidelity`: 0 for the same operations, 1 for each change in rounding, 10 for each in mathematics or bits. `plan`: of
    the first few, with reserved bytes; its verdict is the last word."""

    changes: tuple[Change, ...]
    job: Job
    peak_bytes: int
    upper_bytes: int
    room_bytes: int
    cost: Cost
    fidelity: int
    plan: Plan | None = None

    @property
    def code_needed(self) -> bool:
        """Whether a flag is not enough for one of them."""
        return any(change.effort == "code" for change in self.changes)


@dataclass(frozen=True)
class FitResult:
    """What a search found. `room_bytes`: what peaks may reach (None: no capacity is known, and nothing was searched).
    `fits`: the job does without changes. `choices`: cheapest first. `nearest`: where nothing fits, the combination that
    comes closest. `not_allowed`: changes that would help and have to be allowed, with the word for --allow. `tried`:
    combinations whose memory was predicted; `complete`: whether all were. `starving`: combinations that fit the card,
    where the machine has too little RAM for them."""

    base: Plan
    room_bytes: int | None
    failing: tuple[Phase, ...]
    fits: bool
    base_cost: Cost | None
    choices: tuple[Choice, ...] = ()
    nearest: Choice | None = None
    not_allowed: tuple[Change, ...] = ()
    tried: int = 0
    complete: bool = True
    starving: tuple[Choice, ...] = ()


def fit(
    job: Job,
    headroom: float = 0.05,
    allow: Collection[str] = frozenset(),
    *,
    predictor: Predictor = quickly,
    planner: Planner = planned,
    replay: bool = True,
    most: int = MOST,
) -> FitResult:
    """Searches changes that make the job fit, with a share of `headroom` of the card left free. Without `allow`
    (of ALLOWANCES) no change lowers the effective batch, the context or the precision, or changes what is trained or
    the machine.

    Raises UsageError for a job that contradicts itself, an unknown word in `allow`, or a headroom that leaves nothing.
    """
    check_allow(allow)
    base = planner(job, False)
    room = room_of(base, headroom)
    if room is None or not base.ranks:
        return FitResult(base, None if room is None else room.bytes, (), False, None)
    failing = tuple(phase for phase in base.worst.phases if phase in room.failing)
    before = cost(base.job)
    if not failing:
        return FitResult(base, room.bytes, (), True, before)
    search = _Search(job, room.bytes, headroom, predictor, most)
    offered = axes(job, allow)
    search.run(_without_deepspeed(job, offered), room.failing)
    if not search.fitting and search.complete:
        search.run(offered, room.failing)
    exact = predicted if predictor is quickly else predictor
    choices = _confirmed(_best(search.fitting), exact)
    if search.fitting and not choices:  # a whole prediction that differs: then all are whole
        search = _Search(job, room.bytes, headroom, exact, min(most, _WHOLE))
        search.run(_without_deepspeed(job, offered), room.failing)
        choices = _best(search.fitting)
    starving: list[Choice] = []
    if replay:
        choices = _replayed(choices, planner, starving)
    nearest = None if choices or starving else search.nearest
    return FitResult(
        base,
        room.bytes,
        failing,
        False,
        before,
        tuple(choices),
        nearest,
        _not_allowed(job, allow, room.failing, search),
        search.tried,
        search.complete,
        tuple(starving),
    )


def _without_deepspeed(job: Job, offered: Mapping[str, tuple[Change, ...]]) -> dict[str, tuple[Change, ...]]:
    """A job that has nothing to do with DeepSpeed is first asked to shard by FSDP alone."""
    if job.parallel.strategy.startswith("zero"):
        return dict(offered)
    return {axis: tuple(each for each in changes if not _is_zero(each)) for axis, changes in offered.items()}


def _is_zero(change: Change) -> bool:
    return isinstance(change, Shard) and change.strategy.startswith("zero")


def check_allow(allow: Collection[str]) -> None:
    """Raises UsageError for a word that is not one of ALLOWANCES."""
    unknown = sorted(set(allow) - set(ALLOWANCES))
    if unknown:
        raise UsageError(f"--allow takes {', '.join(ALLOWANCES)}, not {', '.join(unknown)}.")


def _best(fitting: list[Choice]) -> list[Choice]:
    """None of them dominated; the cheapest first, then the truest, then the one with the fewest changes."""
    return pareto(sorted(fitting, key=_order), key_of)[:SHOWN]


def key_of(choice: Choice) -> tuple[float, ...]:
    """What choices are compared by; smaller is better in each."""
    time = round(log(max(choice.cost.per_token, 1e-12)) / log(1.02))
    memory = round(log(max(choice.upper_bytes, 1)) / log(1.25))
    return (time, memory, choice.fidelity, choice.code_needed)


def _order(choice: Choice) -> tuple[float, ...]:
    time, memory, fidelity, code = key_of(choice)
    return (time, fidelity, code, len(choice.changes), memory, choice.cost.per_token)


def _confirmed(choices: list[Choice], predictor: Predictor) -> list[Choice]:
    """The choices with whole predictions; one that does not fit by them is left out."""
    made = []
    for choice in choices:
        peak = predictor(choice.job)
        if upper(choice.job, peak) <= choice.room_bytes:
            made.append(replace(choice, peak_bytes=peak, upper_bytes=upper(choice.job, peak)))
    return made


def _replayed(choices: list[Choice], planner: Planner, starving: list[Choice]) -> list[Choice]:
    """The first ones with a whole plan. One that does not fit in the allocator is left out; one whose machine has too
    little RAM is put into `starving`, unless loading is all that is short, and one copy of the weights has room. Those
    that may not fit come last."""
    sure: list[Choice] = []
    open_: list[Choice] = []
    for place, choice in enumerate(choices):
        if len(sure) >= REPLAYED:
            return [*sure, *choices[place:], *open_]
        whole = planner(choice.job, True)
        if whole.fits is False:
            continue
        made = replace(choice, plan=whole)
        once = loads_once(whole)
        if once is not None:
            made = replace(made, changes=(*choice.changes, once))
        elif shortage(whole) is not None:
            starving.append(made)
            continue
        (sure if whole.fits else open_).append(made)
    return [*sure, *open_]


def _not_allowed(
    job: Job, allow: Collection[str], failing: frozenset[Phase], search: _Search
) -> tuple[Change, ...]:
    """The mildest change of each kind that would have to be allowed, where it is worth it."""
    found: dict[str, Change] = {}
    for changes in axes(job, ALLOWANCES).values():
        for change in changes:
            if (
                not change.needs
                or change.needs in allow
                or not change.phases & failing
                or change.code in found
            ):
                continue
            if change.applies(job) is None and search.is_worth(change):
                found[change.code] = change
    return tuple(found.values())


class _Search:
    """Combinations level by level: each with one change more than those of the level before."""

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
