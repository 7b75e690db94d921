"""From the command line of `oomph trace` to what the child is asked for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli.trace_check import capacity_of, steps_of
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.trace import Request
    from oomph.hardware.gpus import Gpu
    from oomph.tracing.child.request import Request as ChildRequest
    from oomph.tracing.settings import TraceSettings
    from oomph.tracing.target.model import Target

#: Whose kernels are simulated where no GPU is named.
DEFAULT_GPU = "a100-80gb"
#: What the recorder knows, of what is installed and of what it can speak for.
_OLDEST, _NEWEST = (2, 4), (2, 14)
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?:[.+].*)?")
_CONF = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


@dataclass(frozen=True)
class Plan:
    """What is traced: the target with its flags changed, for one of `world` processes. `notes` are sentences for the
    report."""

    target: Target
    gpu: Gpu
    torch: tuple[int, int]
    capacity_bytes: int | None
    conf: str
    world: int
    device_count: int
    notes: tuple[str, ...] = ()


def plan_of(request: Request, extra: tuple[str, ...] = ()) -> Plan:
    """Everything that is known before the script runs. `extra` are further settings of the script's flags.

    Raises UsageError for what cannot be meant, InputError for a script that is not there.
    """
    from oomph.hardware.names import gpu
    from oomph.tracing.target.overrides import override
    from oomph.tracing.target.parse import parse

    target = override(parse(request.target), [*request.settings, *extra])
    chosen = gpu(request.gpu or DEFAULT_GPU)
    if not chosen.is_cuda:
        raise UsageError(
            f"--gpu {chosen.name}: only NVIDIA GPUs can be traced; how kernels of {chosen.vendor} use memory is not "
            "known."
        )
    world = request.world or target.world_size or 1
    capacity, notes = _capacity(request, chosen)
    return Plan(
        target=target,
        gpu=chosen,
        torch=_torch(request),
        capacity_bytes=capacity,
        conf=_conf(request, target),
        world=world,
        device_count=_devices(request, target, world),
        notes=notes,
    )


def child_request(request: Request, plan: Plan, rank: int, out: Path) -> ChildRequest:
    """What the child is asked for. Raises UsageError for allocator settings that PyTorch refuses."""
    from oomph.tracing.child.request import Limits
    from oomph.tracing.child.request import Request as ChildRequest

    return ChildRequest(
        target=plan.target,
        settings=trace_settings(request, plan, rank),
        folder=str(Path.cwd()),
        out=str(out),
        limits=Limits(operators=request.max_operators, seconds=request.timeout),
        local_world=plan.target.local_world_size,
    )


def trace_settings(request: Request, plan: Plan, rank: int) -> TraceSettings:
    """The settings of one process."""
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.tracing.settings import TraceSettings

    return TraceSettings(
        gpu=plan.gpu,
        torch=plan.torch,
        capacity_bytes=plan.capacity_bytes,
        device_bytes=_device_bytes(request, plan),
        allocator=AllocatorSettings.parse(plan.conf, torch=plan.torch),
        device_count=plan.device_count,
        steps=steps_of(request),
        rank=rank,
        world=plan.world,
        stacks=request.stacks,
    )


def _device_bytes(request: Request, plan: Plan) -> int | None:
    """What the device says it has: as the GPU that was named, else what was given as its capacity."""
    if request.gpu is None and plan.capacity_bytes is not None:
        return plan.capacity_bytes
    return plan.gpu.total_bytes or plan.capacity_bytes


def _capacity(request: Request, gpu: Gpu) -> tuple[int | None, tuple[str, ...]]:
    """What PyTorch can have, and a sentence on how that is known."""
    given = capacity_of(request)
    if given is not None:
        return given, ()
    if request.gpu is None:
        return None, (
            f"No GPU was named: memory had no end, and kernels are those of an {gpu.name}. --gpu says which it is.",
        )
    from oomph.hardware.outside import available_bytes
    from oomph.units import format_bytes

    room = available_bytes(gpu)
    return room.low_bytes, (
        (
            f"What PyTorch can have was taken as {format_bytes(room.low_bytes)}, the least that is likely: what CUDA "
            "shows of this GPU less what the CUDA context and loaded kernels take at most (docs/hardware.md)."
        ),
    )


def _devices(request: Request, target: Target, world: int) -> int:
    """GPUs that a process sees: those of its machine."""
    if request.gpu is not None:
        from oomph.hardware.names import machine

        try:
            return max(machine(request.gpu)[1], 1)
        except UsageError:
            pass  # the name of a GPU, of which there are as many as processes
    return max(target.local_world_size or min(world, 8), 1)


def _torch(request: Request) -> tuple[int, int]:
    """The version that the trace speaks for. Raises UsageError where no PyTorch is installed, or none that works."""
    installed = installed_torch()
    if installed < _OLDEST:
        raise UsageError(
            f"PyTorch {installed[0]}.{installed[1]} is installed; a trace needs {_OLDEST[0]}.{_OLDEST[1]} or newer."
        )
    if request.torch is None:
        return min(installed, _NEWEST)
    match = _VERSION.fullmatch(request.torch.strip())
    version = None if match is None else (int(match[1]), int(match[2]))
    if version is None or not _OLDEST <= version <= _NEWEST:
        oldest, newest = (".".join(map(str, each)) for each in (_OLDEST, _NEWEST))
        raise UsageError(f"--torch {request.torch[:60]!r}: give a version from {oldest} to {newest}")
    return version


def installed_torch() -> tuple[int, int]:
    """The version of PyTorch that the child will import, without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        text = version("torch")
    except PackageNotFoundError:
        raise UsageError(
            "A trace needs PyTorch, and it is not installed where oomph is; its CPU build is enough: install oomph "
            "where the script runs, or pip install torch"
        ) from None
    match = _VERSION.fullmatch(text)
    if match is None:
        raise UsageError(f"The installed PyTorch has the version {text[:60]!r}, which is not known.")
    return int(match[1]), int(match[2])


def _conf(request: Request, target: Target) -> str:
    """The allocator's settings: as asked for, else of the command's own environment, else of this one."""
    if request.alloc_conf is not None:
        return request.alloc_conf
    for environment in (target.environment, os.environ):
        for name in _CONF:
            if environment.get(name):
                return environment[name]
    return ""
