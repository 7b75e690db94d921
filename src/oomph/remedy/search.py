"""Which combinations of changes make a job fit, and what each costs.

Combinations grow one change at a time. One that fits is not made larger, unless a further change makes it faster, and
where a value fits (a micro-batch of 4) no stronger one is looked at (of 2), so that each answer has only changes that
it needs. The answers are those that no other beats in time per token, memory, fidelity and effort at once. Differences
of 2 % in time are none, as estimates are no finer; nor are those of a fifth in memory, as what is saved beyond what
fits is of little use. The first few are then played through the simulated allocator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from oomph.errors import UsageError
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.remedy.changes import ALLOWANCES, Change, axes
from oomph.remedy.changes.shard import Shard
from oomph.remedy.choice import Choice, key_of
from oomph.remedy.collecting import seldom_collecting
from oomph.remedy.combinations import Combinations
from oomph.remedy.costs import Cost, cost
from oomph.remedy.pareto import pareto
from oomph.remedy.room import Planner, Predictor, planned, predicted, quickly, room_of, upper
from oomph.remedy.starving import loads_once, shortage

#: Combinations that are looked at, at most.
MOST = 20_000
#: Of whole predictions, where a search by a few layers was wrong.
_WHOLE = 300
#: Choices that are returned, at most, and of them played through the allocator.
SHOWN, REPLAYED = 8, 3


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


@seldom_collecting()
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
    search = Combinations(job, room.bytes, headroom, predictor, most)
    offered = axes(job, allow)
    search.run(_without_deepspeed(job, offered), room.failing)
    if not search.fitting and search.complete:
        search.run(offered, room.failing)
    exact = predicted if predictor is quickly else predictor
    choices = _confirmed(_best(search.fitting), exact)
    if search.fitting and not choices:  # a whole prediction that differs: then all are whole
        search = Combinations(job, room.bytes, headroom, exact, min(most, _WHOLE))
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
    job: Job, allow: Collection[str], failing: frozenset[Phase], search: Combinations
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
