"""From the command line of `oomph trace` to what the child is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli.snapshot_check import capacity_of
from oomph.cli.trace_check import steps_of
from oomph.errors import UsageError
from oomph.units import MIB, format_bytes

if TYPE_CHECKING:
    from oomph.cli.trace import Request
    from oomph.tracing.child.request import Request as ChildRequest
    from oomph.tracing.settings import TraceSettings
    from oomph.tracing.target.model import Target

#: PyTorch asks the driver for no less (kSmallBuffer in c10/cuda/CUDACachingAllocator.cpp).
_SMALLEST = 2 * MIB


@dataclass(frozen=True)
class Plan:
    """What is traced: the target with its flags changed, for one of `world` processes. `settings` are those of rank 0,
    `notes` sentences for the report."""

    target: Target
    settings: TraceSettings
    notes: tuple[str, ...] = ()

    @property
    def world(self) -> int:
        """The number of processes."""
        return self.settings.world


def plan_of(request: Request, extra: tuple[str, ...] = ()) -> Plan:
    """Everything that is known before the script runs. `extra` are further settings of the script's flags.

    Raises UsageError for what cannot be meant, InputError for a script that is not there.
    """
    from oomph.tracing.choices import Asked, allocator_conf, gpus_of_machine, settings_for
    from oomph.tracing.target.overrides import override
    from oomph.tracing.target.parse import parse

    target = override(parse(request.target), [*request.settings, *extra])
    world = request.world or target.world_size or 1
    here = target.local_world_size or min(world, 8)
    asked = Asked(
        gpu=request.gpu,
        capacity_bytes=_capacity(request.capacity),
        torch=request.torch,
        conf=allocator_conf(target.environment) if request.alloc_conf is None else request.alloc_conf,
        steps=steps_of(request),
        world=world,
        device_count=gpus_of_machine(request.gpu) or max(here, 1),
        stacks=request.stacks,
    )
    settings, notes = settings_for(asked)
    return Plan(target, settings, notes)


def _capacity(capacity: str | None) -> int | None:
    """The bytes of --capacity. Raises UsageError for less than the allocator's smallest segment (2 MiB): who writes 24
    means GiB, and would be told that nothing fits."""
    size = capacity_of(capacity)
    if size is not None and size < _SMALLEST:
        raise UsageError(
            f"--capacity {capacity!r} is {format_bytes(size)}, in which PyTorch can have nothing; say the unit: 24GiB"
        )
    return size


def child_request(request: Request, plan: Plan, rank: int, out: Path) -> ChildRequest:
    """What the child is asked for."""
    from dataclasses import replace

    from oomph.tracing.child.request import Limits
    from oomph.tracing.child.request import Request as ChildRequest

    return ChildRequest(
        target=plan.target,
        settings=replace(plan.settings, rank=rank),
        folder=str(Path.cwd()),
        out=str(out),
        limits=Limits(operators=request.max_operators, seconds=request.timeout),
        local_world=plan.target.local_world_size,
        expects_full=request.largest is not None,
    )
