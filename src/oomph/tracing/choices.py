"""From names that people give (a GPU, a version, sizes) to the settings of a trace."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.names import machine
from oomph.hardware.outside import available_bytes
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.tracing.settings import TraceSettings
from oomph.units import format_bytes

#: Whose kernels are simulated where no GPU is named.
DEFAULT_GPU = "a100-80gb"
#: Versions that can be traced, and that a trace can speak for.
OLDEST, NEWEST = (2, 4), (2, 14)
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?:[.+].*)?")
_CONF = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


@dataclass(frozen=True)
class Asked:
    """What somebody asked for. `gpu` is a name (None: none in particular), `capacity_bytes` what PyTorch can have in
    all (None: what the GPU leaves), `torch` a version as text (None: the installed one), `conf` the allocator's
    settings as text. The rest is as in TraceSettings."""

    gpu: str | None = None
    capacity_bytes: int | None = None
    torch: str | None = None
    conf: str = ""
    steps: int | None = None
    rank: int = 0
    world: int = 1
    device_count: int = 1
    stacks: bool = True


def settings_for(asked: Asked) -> tuple[TraceSettings, tuple[str, ...]]:
    """The settings, and sentences on what was taken for what nobody said.

    Raises UsageError for a GPU that is not known or not NVIDIA's, a version that cannot be traced, allocator settings
    that PyTorch refuses, and where no PyTorch is installed.
    """
    gpu = gpu_named(asked.gpu or DEFAULT_GPU)
    if not gpu.is_cuda:
        raise UsageError(
            f"{gpu.name}: only NVIDIA GPUs can be traced; how kernels of {gpu.vendor} use memory is not known."
        )
    version = _version(asked.torch)
    capacity, notes = _capacity(asked, gpu)
    settings = TraceSettings(
        gpu=gpu,
        torch=version,
        capacity_bytes=capacity,
        device_bytes=capacity if asked.gpu is None and capacity is not None else gpu.total_bytes or capacity,
        allocator=AllocatorSettings.parse(asked.conf, torch=version),
        device_count=asked.device_count,
        steps=asked.steps,
        rank=asked.rank,
        world=asked.world,
        stacks=asked.stacks,
    )
    return settings, notes


def gpus_of_machine(name: str | None) -> int | None:
    """How many GPUs a cloud machine of that name has; None for the name of a GPU."""
    if name is None:
        return None
    try:
        return max(machine(name)[1], 1)
    except UsageError:
        return None


def allocator_conf(*environments: Mapping[str, str]) -> str:
    """The allocator's settings of the first environment that has any; this process's comes last."""
    for environment in (*environments, os.environ):
        for name in _CONF:
            if environment.get(name):
                return environment[name]
    return ""


def installed_torch() -> tuple[int, int]:
    """The version of PyTorch that is installed, without importing it. Raises UsageError where none is."""
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


def _version(text: str | None) -> tuple[int, int]:
    """The version that the trace speaks for."""
    installed = installed_torch()
    if installed < OLDEST:
        raise UsageError(
            f"PyTorch {_dotted(installed)} is installed; a trace needs {_dotted(OLDEST)} or newer."
        )
    if text is None:
        return min(installed, NEWEST)
    match = _VERSION.fullmatch(text.strip())
    version = None if match is None else (int(match[1]), int(match[2]))
    if version is None or not OLDEST <= version <= NEWEST:
        raise UsageError(
            f"PyTorch {text[:60]!r}: a trace can speak for {_dotted(OLDEST)} to {_dotted(NEWEST)}."
        )
    return version


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _capacity(asked: Asked, gpu: Gpu) -> tuple[int | None, tuple[str, ...]]:
    """What PyTorch can have, and a sentence on how that is known."""
    if asked.capacity_bytes is not None:
        return asked.capacity_bytes, ()
    if asked.gpu is None:
        told = f"No GPU was named: memory had no end, and kernels are those of an {gpu.name}."
        return None, (told,)
    room = available_bytes(gpu).low_bytes
    told = (
        f"What PyTorch can have was taken as {format_bytes(room)}, the least that is likely: what CUDA shows of this "
        "GPU less what the CUDA context and loaded kernels take at most (docs/hardware.md)."
    )
    return room, (told,)
