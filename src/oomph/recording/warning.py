"""Peaks that are still to come, projected from the first steps. Pure arithmetic.

    step's peak = what stays (parameters, optimizer states) + gradients + per element of the batch

- The longest batch: a straight line through the peaks of batches of different size, with the interval of its
  prediction; where all had one size, in proportion (the interval's ends are: gradients grow too; they do not).
- The first evaluation: the model's results in proportion to its batch at least, all that the training forward keeps at
  most.
- Saving: all parameters whole on one device at most, where they are sharded.
- Growth: a straight line through what stays after each step; told if it is surely none by chance.

A peak is of allocated bytes. What PyTorch reserves is more, so that nothing is warned of that would fit, as far as the
upper end is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.units import format_bytes

#: Steps before anything is said: the first makes the optimizer's states.
_LEAST_STEPS = 3
_LEAST_GROWTH_STEPS = 12
#: Standard errors: a slope this far from none is no accident; a prediction's interval on either side.
_SURE = 6.0
_INTERVAL = 2.5
#: Growth below this over all that was seen is not told.
_LEAST_GROWTH = 8 << 20
#: Without a known number of steps: how many times the steps so far the end of memory may be away.
_HORIZON = 50


@dataclass(frozen=True)
class Seen:
    """One step. `stays`: allocated at its end; `rows` and `length`: of its longest batch; `forward_growth`: what its
    forward had at its peak above what was there before."""

    step: int
    stays_bytes: int
    peak_bytes: int
    rows: int = 0
    length: int = 0
    forward_growth_bytes: int = 0

    @property
    def elements(self) -> int:
        return self.rows * self.length


@dataclass(frozen=True)
class Coming:
    """What is known of what comes. `capacity_bytes`: what PyTorch can have on this device. `longest`: length of the
    longest sequence; `bound`: what says so. `evaluation_rows`: sequences of an evaluation's batch (0: none to come).
    """

    capacity_bytes: int
    longest: int = 0
    bound: str = ""
    evaluation_rows: int = 0
    result_bytes: int = 0
    gradient_bytes: int = 0
    full_bytes: int = 0
    local_bytes: int = 0
    saves: bool = True
    total_steps: int = 0


@dataclass(frozen=True)
class Projection:
    """A peak to come that may not fit."""

    code: str
    text: str
    low_bytes: int
    high_bytes: int


def project(seen: Sequence[Seen], coming: Coming) -> list[Projection]:
    """All that may not fit, from the steps so far. `seen` is in order."""
    later = [one for one in seen if one.step >= 1]
    if len(later) < _LEAST_STEPS or coming.capacity_bytes <= 0:
        return []
    found = (
        _longest(later, coming),
        _evaluation(later, coming),
        _saving(later, coming),
        _growth(later, coming),
    )
    return [one for one in found if one is not None and one.high_bytes > coming.capacity_bytes]


def _longest(seen: Sequence[Seen], coming: Coming) -> Projection | None:
    sized = [one for one in seen if one.elements]
    if not sized or not coming.longest:
        return None
    largest = max(sized, key=lambda one: one.elements)
    rows = max(one.rows for one in sized)
    elements = rows * coming.longest
    if elements <= largest.elements:
        return None
    fitted = _line([(one.elements, one.peak_bytes - one.stays_bytes) for one in sized])
    stays = max(one.stays_bytes for one in sized)
    if fitted is not None and len({one.elements for one in sized}) >= 4:
        middle, error = fitted.at(elements)
        low, high = stays + int(middle - _INTERVAL * error), stays + int(middle + _INTERVAL * error)
        how = f"a line through {len(sized)} steps"
    else:
        ratio = elements / largest.elements
        above = largest.peak_bytes - largest.stays_bytes
        gradients = min(coming.gradient_bytes, above)
        low = stays + gradients + int((above - gradients) * ratio)
        high = stays + int(above * ratio)
        how = "in proportion"
    low = max(low, largest.peak_bytes)
    high = max(high, low)
    text = (
        f"the longest batch so far had {rows} x {largest.length}; one of {rows} x {coming.longest} ({coming.bound}) "
        f"needs {_range(low, high)} ({how}), and PyTorch can have {format_bytes(coming.capacity_bytes)}"
    )
    return Projection("warning.batch", text, low, high)


def _evaluation(seen: Sequence[Seen], coming: Coming) -> Projection | None:
    sized = [one for one in seen if one.elements and one.forward_growth_bytes]
    if not sized or coming.evaluation_rows <= 0:
        return None
    last = max(sized, key=lambda one: one.elements)
    length = max(last.length, coming.longest)
    ratio = coming.evaluation_rows * length / last.elements
    low = last.stays_bytes + int(coming.result_bytes * ratio)
    high = max(last.stays_bytes + int(last.forward_growth_bytes * ratio), low)
    text = (
        f"the first evaluation is still to come: with {coming.evaluation_rows} x {length} it needs "
        f"{_range(low, high)} (its results at least, all that the training forward keeps at most), and PyTorch can "
        f"have {format_bytes(coming.capacity_bytes)}"
    )
    return Projection("warning.eval", text, low, high)


def _saving(seen: Sequence[Seen], coming: Coming) -> Projection | None:
    if not coming.saves or coming.full_bytes <= coming.local_bytes * 1.5:
        return None
    stays = seen[-1].stays_bytes
    high = stays + coming.full_bytes
    text = (
        f"parameters are sharded: gathered whole on a device for saving they take up to "
        f"{format_bytes(coming.full_bytes)} beside the {format_bytes(stays)} that stay, and PyTorch can have "
        f"{format_bytes(coming.capacity_bytes)} (a sharded state dict, or one offloaded to the CPU, needs no such room)"
    )
    return Projection("warning.save", text, stays, high)


def _growth(seen: Sequence[Seen], coming: Coming) -> Projection | None:
    if len(seen) < _LEAST_GROWTH_STEPS:
        return None
    points = [(one.step, one.stays_bytes) for one in seen]
    fitted = _line(points)
    span = seen[-1].step - seen[0].step
    if fitted is None or fitted.slope <= 0 or fitted.slope * span < _LEAST_GROWTH:
        return None
    if fitted.slope < _SURE * fitted.slope_error:
        return None
    peak = max(one.peak_bytes - one.stays_bytes for one in seen)
    room = coming.capacity_bytes - peak - seen[-1].stays_bytes
    last = seen[-1].step + max(int(room / fitted.slope), 0)
    until = coming.total_steps or seen[-1].step * _HORIZON
    if last >= until:
        return None
    slack = 1.96 * fitted.slope_error
    high = peak + seen[-1].stays_bytes + int(fitted.slope * (until - seen[-1].step))
    text = (
        f"what stays after each step grows by {format_bytes(int(fitted.slope))} a step "
        f"(± {format_bytes(int(slack))}, {len(seen)} steps): memory is full at about step {last}"
    )
    return Projection("warning.growth", text, peak + seen[-1].stays_bytes, high)


@dataclass(frozen=True)
class Line:
    """y = mean_y + slope (x - mean_x), with its residual deviation."""

    mean_x: float
    mean_y: float
    slope: float
    deviation: float
    spread: float
    count: int

    @property
    def slope_error(self) -> float:
        return self.deviation / math.sqrt(self.spread)

    def at(self, x: float) -> tuple[float, float]:
        """The value at x, and the standard error of one observation there."""
        middle = self.mean_y + self.slope * (x - self.mean_x)
        far = (x - self.mean_x) ** 2 / self.spread
        return middle, self.deviation * math.sqrt(1 + 1 / self.count + far)


def _line(points: Sequence[tuple[float, float]]) -> Line | None:
    """Least squares; None for fewer than three points, or all at one x."""
    count = len(points)
    if count < 3:
        return None
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    return Line(mean_x, mean_y, slope, math.sqrt(rest / (count - 2)), spread, count)


def _range(low: int, high: int) -> str:
    if high <= low * 1.02:
        return format_bytes(high)
    return f"{format_bytes(low)} to {format_bytes(high)}"
