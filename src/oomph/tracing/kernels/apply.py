"""Several effects of one call, joined to one list of steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oomph.tracing.kernels.rule import Effect, Give, Output, Step, Take


@dataclass(frozen=True)
class Plan:
    """What a call does, in order: every result exactly once as `Output` with its index, and every `Take` with its
    `Give`. Nothing of zero bytes is in it. Names are those of the rules, with the effect's number before them.
    """

    steps: tuple[Step, ...]
    uncertain_bytes: int = 0


def plan(effects: Sequence[Effect], outputs: int) -> Plan:
    """The steps of one call with `outputs` results, of which the rules said `effects`, in the order they were asked.

    The first effect that names results fixes their order; results that none names come last, in order. A step of
    another effect comes once all results have come that it stands behind in its own effect. What was taken and not
    given is given back at the end, in the order of its taking. Doubts add up. Raises ValueError for an effect that
    contradicts itself: a result twice or out of range, something given that was not taken, a name taken twice.
    """
    if not effects:
        return Plan(tuple(Output(index) for index in range(outputs)))
    lists = [_named(effect.steps, number, outputs) for number, effect in enumerate(effects)]
    order = _order(lists, outputs)
    place = {index: position for position, index in enumerate(order)}
    slots: list[list[Step]] = [[] for _ in range(outputs + 1)]
    for steps in lists:
        slot = 0
        for step in steps:
            if isinstance(step, Output):
                assert step.index is not None
                slot = max(slot, place[step.index] + 1)
            else:
                slots[slot].append(step)
    named = (step for steps in lists for step in steps if isinstance(step, Output))
    sizes = {step.index: step.bytes for step in named if step.bytes is not None}
    joined = list(slots[0])
    for position, index in enumerate(order):
        joined.append(Output(index, sizes.get(index)))
        joined += slots[position + 1]
    return Plan(_closed(joined), sum(effect.uncertain_bytes for effect in effects))


def _named(steps: Sequence[Step], number: int, outputs: int) -> list[Step]:
    """The same steps with unique names and every `Output` spelled out; zero bytes left out."""
    explicit = [step.index for step in steps if isinstance(step, Output) and step.index is not None]
    if len(set(explicit)) != len(explicit) or any(not 0 <= index < outputs for index in explicit):
        raise ValueError(f"a rule names results {explicit} of {outputs}")
    remaining = [index for index in range(outputs) if index not in explicit]
    result: list[Step] = []
    taken: set[str] = set()
    held: set[str] = set()
    for step in steps:
        if isinstance(step, Output):
            if step.index is not None:
                result.append(step)
            else:
                result += [Output(index) for index in remaining]
                remaining = []
            continue
        named = replace(step, name=f"{number}.{step.name}")
        if isinstance(step, Give):
            if step.name not in taken:
                raise ValueError(f"a rule gives back {step.name!r}, which it does not hold")
            taken.discard(step.name)
            if step.name in held:
                held.discard(step.name)
                result.append(named)
        elif isinstance(step, Take):
            if step.name in taken:
                raise ValueError(f"a rule takes {step.name!r} twice")
            taken.add(step.name)
            if step.bytes > 0:
                held.add(step.name)
                result.append(named)
        elif step.bytes > 0:
            result.append(named)
    return result


def _order(lists: Sequence[Sequence[Step]], outputs: int) -> list[int]:
    order: list[int] = []
    for steps in lists:
        for step in steps:
            if isinstance(step, Output) and step.index is not None and step.index not in order:
                order.append(step.index)
    return order + [index for index in range(outputs) if index not in order]


def _closed(steps: Sequence[Step]) -> tuple[Step, ...]:
    held: dict[str, None] = {}
    for step in steps:
        if isinstance(step, Take):
            held[step.name] = None
        elif isinstance(step, Give):
            del held[step.name]
    return (*steps, *(Give(name) for name in held))
