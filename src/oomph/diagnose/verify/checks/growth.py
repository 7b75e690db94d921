"""`growth`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.settings import Settings
from oomph.diagnose.verify.slope import Slope, new_highs, slope, without_largest_jump
from oomph.diagnose.verify.view import Asked, because, listed, lost, readable, why_not_readable
from oomph.evidence.run.data import RankData
from oomph.units import format_bytes

#: Steps in which an optimizer's states and libraries' workspaces come into being.
_WARM = 2
#: Once or twice more is two caches, not growth.
_LEAST_HIGHS = 3


@dataclass(frozen=True)
class _Trend:
    """How what stays after a step changes. `without`: the same without its largest jump. `highs`: how often it went
    above all before."""

    rank: int
    all: Slope
    without: Slope
    first: int
    last: int
    highs: int

    @property
    def low(self) -> float:
        """What it grows per step at least."""
        return min(self.all.low, self.without.low)

    @property
    def high(self) -> float:
        """And at most."""
        return max(self.all.high, self.without.high)

    @property
    def middle(self) -> float:
        return self.all.middle


class Growth:
    """What stays allocated at the end of a step does not grow from step to step (the first two apart). Fails where the
    lower end of a robust slope's 99 % interval is above what is allowed, with and without its largest single jump, and
    the values went above all before at least three times; passes where the upper end is not above it. Otherwise, or
    with too few steps, it cannot be told."""

    name = "growth"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        settings = asked.settings
        trends: list[_Trend] = []
        reasons: list[str] = []
        for rank in asked.run.ranks.values():
            trend = _trend(rank, settings)
            if isinstance(trend, str):
                reasons.append(trend)
            else:
                trends.append(trend)
        if asked.run.missing:
            reasons.append(f"{listed(asked.run.missing)} left no records")
        allowed = settings.growth_bytes
        worst = max(
            (each for each in trends if each.highs >= _LEAST_HIGHS), key=lambda each: each.low, default=None
        )
        if worst is not None and worst.low > allowed:
            return [_answer(self.name, Status.FAILED, worst, settings)]
        wide = max(trends, key=lambda each: each.high, default=None)
        if wide is not None and wide.high > allowed:
            return [_answer(self.name, Status.UNKNOWN, wide, settings)]
        if reasons or wide is None:
            return [Answer(self.name, Status.UNKNOWN, because(reasons) or "no rank left records")]
        return [_answer(self.name, Status.PASSED, wide, settings)]


def _trend(rank: RankData, settings: Settings) -> _Trend | str:
    """The trend of one rank; or why there is none."""
    if not readable(rank):
        return why_not_readable(rank)
    if lost(rank):
        return f"records of rank {rank.rank} were lost or damaged"
    points = last_attempt([(step.step, step.counters.allocated_bytes) for step in rank.steps])
    later = [(float(x), float(y)) for x, y in points if x - points[0][0] >= _WARM]
    found, again = slope(later), slope(without_largest_jump(later))
    if len(later) < settings.growth_steps or found is None or again is None:
        return (
            f"rank {rank.rank} recorded {len(later)} steps after the first {_WARM}, and a slope needs "
            f"{settings.growth_steps}"
        )
    return _Trend(rank.rank, found, again, int(later[0][0]), int(later[-1][0]), new_highs(later))


def last_attempt(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The points since the step last went back: a job that was started again counts from where it was saved."""
    start = 0
    for place in range(1, len(points)):
        if points[place][0] <= points[place - 1][0]:
            start = place
    return points[start:]


def _answer(check: str, status: Status, trend: _Trend, settings: Settings) -> Answer:
    low, high = (format_bytes(round(value)) for value in (trend.low, trend.high))
    span = low if low == high else f"{format_bytes(round(trend.middle))} ({low} to {high})"
    over = f"over steps {trend.first} to {trend.last} on rank {trend.rank}"
    allowed = f"allowed are {format_bytes(settings.growth_bytes)}"
    if status is Status.PASSED:
        text = f"what stays after a step changes by {span} per step at most {over}; {allowed}"
    elif status is Status.FAILED:
        text = f"what stays after a step grows by {span} per step {over}; {allowed}"
    else:
        text = f"what stays after a step changes by {span} per step {over}, too uncertain to say; {allowed}"
    numbers = {
        "per_step_bytes": round(trend.middle),
        "per_step_low_bytes": round(trend.low),
        "per_step_high_bytes": round(trend.high),
        "points_count": float(trend.all.points),
    }
    return Answer(check, status, text, rank=trend.rank, numbers=numbers)
