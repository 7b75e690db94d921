"""Memory that grows step by step until it runs out: a cause that is no variable's value."""

from __future__ import annotations

from oomph.trial.model import TrialOutcome, TrialResult, Variable
from oomph.units import format_bytes

#: Phases that every earlier step had passed; "" is between phases, where the next batch comes to the device.
_TRAINING = frozenset(("forward", "backward", "optimizer", ""))


def grows(result: TrialResult) -> int | None:
    """Bytes a step, where what had grown explains the failure: without it the request would have fitted."""
    growth, step = result.growth_bytes, result.step
    if result.outcome is not TrialOutcome.OOM or not growth or step is None or step < 2:
        return None
    if result.phase not in _TRAINING:
        return None
    if result.capacity_bytes is None:
        return growth
    needed = max((one.allocated_bytes for one in result.peaks if one.failed), default=0)
    room = result.capacity_bytes - (result.outside_bytes or 0)
    return growth if needed - growth * (step - 1) <= room else None


def leak_of(first: TrialResult, second: TrialResult, variable: Variable) -> str | None:
    """The sentence of a leak, where the setting as given grows, and grows with the first variable at another value,
    too; None where that is not shown."""
    growth = grows(first)
    if growth is None or not second.outcome.tells or not second.growth_bytes:
        return None
    value = second.setting[variable.name]
    same = "too" if second.growth_bytes * 2 > growth else f"by {format_bytes(second.growth_bytes)} a step"
    if second.outcome is TrialOutcome.OOM:
        then = f"there it fails at step {second.step}"
    else:
        then = f"it goes on to grow there, and {_until(second)}"
    return (
        f"Memory grows by {format_bytes(growth)} a step: as given it fails at step {first.step}, after as many steps "
        f"that fitted. With {variable.name}={value} it grows {same}: {then}. No value of a variable mends that; "
        "something is kept from every step (a loss with its graph in a list, outputs, a cache)."
    )


def _until(second: TrialResult) -> str:
    """When it would fail, by arithmetic."""
    peak = max((one.allocated_bytes for one in second.peaks), default=0)
    if second.capacity_bytes is None or not peak or not second.growth_bytes:
        return "fails later"
    room = second.capacity_bytes - (second.outside_bytes or 0) - peak
    step = (second.step or 0) + max(0, room) // second.growth_bytes
    return f"by that rate fails at about step {step} (not tried)"
