"""Which setting to use: what was shown to fit, with room to spare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.trial.lines import Line, line, measured, number
from oomph.trial.model import TrialOutcome, TrialResult, Value, Variable
from oomph.trial.protocol import Found, Verdict
from oomph.units import format_bytes


@dataclass(frozen=True)
class Recommended:
    """A setting, never above what was shown to fit. `peak_bytes` is what its fullest phase reserves, or has allocated
    where that is all that is known; `measured`: in a trial of that setting, else by the line through others.
    `headroom`: the share of the card that stays free then (None: no capacity is known)."""

    setting: Mapping[str, Value]
    why: str
    peak_bytes: int | None = None
    measured: bool = False
    headroom: float | None = None
    enough: bool = True


def recommend(
    found: Found, variables: Sequence[Variable], results: Sequence[TrialResult], headroom: float
) -> Recommended | None:
    """The largest value of the first cause at which `headroom` (a share of the capacity) stays free; None where nothing
    fits, or the cause is no variable's value."""
    if found.setting is None or found.verdict not in (Verdict.CAUSE, Verdict.TOGETHER):
        return None
    setting = dict(found.setting)
    # The one that is given up most easily: of a batch and a context that have to give way together, the batch.
    variable = next(one for one in variables if one.name == found.causes[0])
    fits = _fitting(results, setting)
    room = _room(fits)
    if fits is None or room is None or fits.capacity_bytes is None:
        why = "the largest setting that was shown to fit; no capacity is recorded, so its room is not known"
        return Recommended(setting, why, _peak(fits), fits is not None)
    wanted = room - headroom * fits.capacity_bytes
    alike = [
        one
        for one in results
        if one.outcome is TrialOutcome.FITS
        and all(one.setting[name] == value for name, value in setting.items() if name != variable.name)
    ]
    lines = _lines(alike, variable)
    start = variable.values.index(setting[variable.name])
    for value in variable.values[start:]:
        tried = next((one for one in alike if one.setting[variable.name] == value), None)
        size = _peak(tried) if tried is not None else _by_line(lines, value)
        if size is None:
            continue
        if size <= wanted:
            free = (room - size) / fits.capacity_bytes
            how = "measured" if tried is not None else "by the line through the trials, not tried itself"
            why = f"{format_bytes(size)} at its highest ({how}): {free:.0%} of the card stay free"
            return Recommended({**setting, variable.name: value}, why, size, tried is not None, free)
    most = _peak(fits)
    left = (room - most) / fits.capacity_bytes if most is not None else None
    said = "its room is not known" if left is None else f"{max(left, 0):.0%} stay free with it"
    why = f"the largest that fits; nothing that was tried leaves {headroom:.0%} of the card free: {said}"
    return Recommended(setting, why, most, True, left, enough=False)


def _fitting(results: Sequence[TrialResult], setting: Mapping[str, Value]) -> TrialResult | None:
    return next(
        (one for one in results if one.outcome is TrialOutcome.FITS and dict(one.setting) == setting), None
    )


def _room(result: TrialResult | None) -> int | None:
    if result is None or result.capacity_bytes is None:
        return None
    return result.capacity_bytes - (result.outside_bytes or 0)


def _peak(result: TrialResult | None) -> int | None:
    """What the fullest phase reserved: that is what other processes do not get."""
    if result is None:
        return None
    return max((one.reserved_bytes or one.allocated_bytes for one in result.peaks), default=None)


def _lines(alike: Sequence[TrialResult], variable: Variable) -> tuple[Line, ...]:
    points: dict[str, list[tuple[float, int]]] = {}
    for one in alike:
        value = number(one.setting[variable.name])
        if value is None:
            return ()
        for peak in measured(one):
            points.setdefault(peak.phase, []).append((value, peak.reserved_bytes or peak.allocated_bytes))
    return tuple(found for phase, each in points.items() if (found := line(phase, each)) is not None)


def _by_line(lines: Sequence[Line], value: Value) -> int | None:
    """The highest line at a value, with what its points lie off it on top."""
    units = number(value)
    if units is None or not lines:
        return None
    return round(max(one.at(units) + (one.deviation_bytes or 0) for one in lines))
