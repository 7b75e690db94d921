"""How many bytes a phase needs more for each unit of a variable: straight lines through what trials measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.phases import Phase
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult, Value, Variable

#: A trial that ran out of memory later than this had made the optimizer's states before: what its other phases needed
#: counts.
_STEPS_BEFORE = 2
#: The phases of a step, in their order.
_IN_A_STEP = (Phase.LOAD.value, Phase.FORWARD.value, Phase.BACKWARD.value, Phase.OPTIMIZER.value)


@dataclass(frozen=True)
class Line:
    """bytes = `base_bytes` + `slope_bytes` x value, of what one phase had allocated at the most. `points` are (value,
    bytes) that were measured; with two the line goes through both and nothing tests it; with more, by least squares,
    `deviation_bytes` is the most that a point lies off it."""

    phase: str
    slope_bytes: float
    base_bytes: float
    points: tuple[tuple[float, int], ...]
    deviation_bytes: int | None = None

    def at(self, value: float) -> float:
        """Bytes at a value."""
        return self.base_bytes + self.slope_bytes * value


def line(phase: str, points: Sequence[tuple[float, int]]) -> Line | None:
    """The line through two or more points of different values; None for fewer."""
    points = tuple(sorted(set(points)))
    values = [value for value, _ in points]
    if len(set(values)) < 2:
        return None
    count = len(points)
    middle_x, middle_y = sum(values) / count, sum(size for _, size in points) / count
    spread = sum((value - middle_x) ** 2 for value in values)
    slope = sum((value - middle_x) * (size - middle_y) for value, size in points) / spread
    base = middle_y - slope * middle_x
    off = None
    if count > 2:
        off = round(max(abs(base + slope * value - size) for value, size in points))
    return Line(phase, slope, base, points, off)


def measured(result: TrialResult) -> tuple[PhasePeak, ...]:
    """The phases of a trial whose peaks are whole: it passed, or ran out of memory in another phase of a later step.
    What comes after that phase in a step was not seen in the one that failed, which may be the one with the longest
    batch. A phase in which memory ran out gives a lower bound, which is no point of a line; nor is what grew step by
    step, which depends on how many there were."""
    if result.growth_bytes:
        return ()
    if result.outcome is TrialOutcome.FITS:
        return result.peaks
    if result.outcome is TrialOutcome.OOM and (result.step or 0) >= _STEPS_BEFORE:
        return tuple(
            peak for peak in result.peaks if not peak.failed and peak.phase not in _unseen(result.phase)
        )
    return ()


def _unseen(phase: str) -> tuple[str, ...]:
    """The phases of a step that come after one; all of them where it is not known when memory ran out."""
    if phase in _IN_A_STEP:
        return _IN_A_STEP[_IN_A_STEP.index(phase) + 1 :]
    return () if phase else _IN_A_STEP


def number(value: Value) -> float | None:
    """A value as a number; None for a word."""
    return float(value) if isinstance(value, (int, float)) else None


def alike(
    results: Sequence[TrialResult], variable: str
) -> Mapping[tuple[tuple[str, Value], ...], list[TrialResult]]:
    """Trials that differ in nothing but `variable`, by what they have in common."""
    groups: dict[tuple[tuple[str, Value], ...], list[TrialResult]] = {}
    for one in results:
        rest = tuple(sorted((name, value) for name, value in one.setting.items() if name != variable))
        groups.setdefault(rest, []).append(one)
    return groups


def lines_of(results: Sequence[TrialResult], variable: Variable) -> tuple[Line, ...]:
    """A line for each phase, from the trials that differ in this variable alone, of several such sets the largest."""
    best: tuple[Line, ...] = ()
    for group in alike(results, variable.name).values():
        points: dict[str, list[tuple[float, int]]] = {}
        for one in group:
            value = number(one.setting[variable.name])
            if value is not None:
                for peak in measured(one):
                    points.setdefault(peak.phase, []).append((value, peak.allocated_bytes))
        lines = tuple(found for phase, each in points.items() if (found := line(phase, each)) is not None)
        if sum(len(one.points) for one in lines) > sum(len(one.points) for one in best):
            best = lines
    return best
