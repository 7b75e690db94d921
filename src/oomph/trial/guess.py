"""Which value should be the largest that fits, by what is measured so far and by a plan: it orders trials, no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oomph.trial.lines import line, measured, number
from oomph.trial.model import TrialOutcome, TrialResult, Value, Variable

#: Bytes that a plan predicts for a value of a variable at its highest; None where it says nothing of it.
Planned = Callable[[Variable, Value, Mapping[str, Value]], "int | None"]


@dataclass(frozen=True)
class Guess:
    """Callable as the protocol wants it. `planned` is a plan's prediction, if there is one: it gives the shape, and
    what was measured where it lies."""

    planned: Planned | None = None

    def __call__(self, variable: Variable, known: Mapping[int, TrialResult]) -> int | None:
        """The place of the largest value whose peak should fit; None where nothing is known of it."""
        fitting = {place: one for place, one in known.items() if one.outcome is TrialOutcome.FITS}
        if not fitting:
            return None
        room = min((_room(one) for one in known.values() if one.capacity_bytes is not None), default=None)
        need = self._planned(variable, fitting) or _measured(variable, known)
        if room is None or need is None:
            return None
        for place, value in enumerate(variable.values):
            size = need(value)
            if size is None:
                return None
            if size <= room:
                return place
        return None

    def _planned(
        self, variable: Variable, fitting: Mapping[int, TrialResult]
    ) -> Callable[[Value], float | None] | None:
        """The plan, moved by what it was off where the largest that fits was measured."""
        if self.planned is None:
            return None
        planned, nearest = self.planned, fitting[min(fitting)]
        said = planned(variable, nearest.setting[variable.name], nearest.setting)
        peak = max((one.allocated_bytes for one in nearest.peaks), default=None)
        if said is None or peak is None:
            return None

        def need(value: Value) -> float | None:
            size = planned(variable, value, nearest.setting)
            return None if size is None else size + peak - said

        return need


def _room(result: TrialResult) -> int:
    return (result.capacity_bytes or 0) - (result.outside_bytes or 0)


def _measured(variable: Variable, known: Mapping[int, TrialResult]) -> Callable[[Value], float | None] | None:
    """The highest of the lines of all phases. With one trial: what a phase had above what was there when it began
    grows with the value; what was there does not."""
    points: dict[str, list[tuple[float, int]]] = {}
    starts: dict[str, int] = {}
    for one in known.values():
        value = number(one.setting[variable.name])
        if value is None:
            return None
        for peak in measured(one):
            points.setdefault(peak.phase, []).append((value, peak.allocated_bytes))
            if peak.start_bytes is not None:
                starts[peak.phase] = peak.start_bytes
    lines = []
    resting = min(starts.values(), default=0)
    for phase, each in points.items():
        found = line(phase, each)
        if found is None:
            # A backward begins with the forward's activations: what rests is the least that any phase began with.
            value, size = each[0]
            found = line(phase, [(0.0, min(resting, size)), (value, size)]) if value > 0 else None
        if found is not None:
            lines.append(found)
    if not lines:
        return None

    def need(value: Value) -> float | None:
        units = number(value)
        return None if units is None else max(one.at(units) for one in lines)

    return need
