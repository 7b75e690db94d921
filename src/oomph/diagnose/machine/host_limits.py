"""How much main memory a job may use: the machine's RAM, and the limits that are set on it."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.machine.settings import machine_of
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote


@dataclass(frozen=True)
class Limit:
    """A size, and what it is ("the cgroup's limit")."""

    size_bytes: int
    what: str
    evidence: tuple[Quote, ...] = ()


def ram(environment: Environment) -> Limit | None:
    """The machine's RAM, as it says or as its type has."""
    told = environment.host.ram_bytes
    if told is not None:
        return Limit(told.value, "the machine's RAM", (told.quote,))
    machine = machine_of(environment)
    if machine is not None and machine.host_bytes and environment.machine_type is not None:
        return Limit(machine.host_bytes, f"the RAM of {machine.name}", (environment.machine_type.quote,))
    return None


def limits(environment: Environment) -> list[Limit]:
    """The limits that are set: by the control group, by the scheduler, by the pod or container."""
    found: list[Limit] = []
    group = environment.host.cgroup_limit_bytes
    if group is not None and 0 < group.value < 1 << 60:  # an unlimited group says 2**63 less a page
        found.append(Limit(group.value, "the control group's limit", (group.quote,)))
    return found + [
        Limit(one.memory_bytes, f"the memory limit of {one.program or 'the job'}", (one.quote,))
        for one in environment.launches
        if one.memory_bytes is not None and one.memory_bytes > 0
    ]


def lowest(environment: Environment) -> Limit | None:
    """The smallest of RAM and limits; None where none is told."""
    machine = ram(environment)
    found = [*limits(environment), *([machine] if machine is not None else [])]
    return min(found, key=lambda one: one.size_bytes, default=None)
