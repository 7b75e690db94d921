"""How a GPU's memory is shared between this process's allocator, the rest of this process, and others."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from oomph.probe.machine.nvml import NvmlMachine, Unavailable
from oomph.probe.machine.visible import visible

if TYPE_CHECKING:
    from oomph.probe.model import Gpu


class Shares(msgspec.Struct, frozen=True):
    """Bytes beside the allocator, and of other processes; None where the driver does not tell, and `why`."""

    outside_bytes: int | None = None
    others_bytes: int | None = None
    why: str = ""


@cache
def _nvml() -> NvmlMachine | str:
    """Only NVML: a process that trains starts no programs for a number."""
    try:
        return NvmlMachine()
    except ImportError:
        return "what is outside the allocator is not known: nvidia-ml-py is not installed (pip install 'oomph[gpu]')"
    except Unavailable as error:
        return f"what is outside the allocator is not known: {error}"


def shares(uuid: str, index: int, reserved_bytes: int) -> Shares:
    """For the CUDA device of this uuid ("" where torch does not tell it: then by its index and the environment)."""
    nvml = _nvml()
    if isinstance(nvml, str):
        return Shares(why=nvml)
    own = (os.getpid(),)
    gpu = nvml.gpu(f"GPU-{_bare(uuid)}", own) if uuid else None
    return of(nvml.gpus(own) if gpu is None else (gpu,), uuid, index, reserved_bytes)


def name(index: int) -> str:
    """The driver's name of the device that CUDA will number so in this process; "" where that cannot be told. For as
    long as CUDA itself is not initialized."""
    nvml = _nvml()
    if isinstance(nvml, str):
        return ""
    seen = visible(nvml.gpus(), os.environ)
    return seen.gpus[index].name if seen.certain and index < len(seen.gpus) else ""


def of(gpus: tuple[Gpu, ...], uuid: str, index: int, reserved_bytes: int) -> Shares:
    """As `shares`, from a reading in which this process is `ours`."""
    gpu = next((one for one in gpus if uuid and _bare(one.uuid) == _bare(uuid)), None)
    if gpu is None:
        seen = visible(gpus, os.environ)
        if not seen.certain or index >= len(seen.gpus):
            return Shares(why="which of the driver's GPUs this device is could not be told")
        gpu = seen.gpus[index]
    own = [one for one in gpu.processes if one.pid == os.getpid()]
    others = [one for one in gpu.processes if one.pid != os.getpid()]
    if not own or own[0].used_bytes is None:
        return Shares(why=gpu.missing or "the driver does not list this process on its GPU")
    outside = own[0].used_bytes - reserved_bytes
    if outside < 0:
        return Shares(
            why="the driver counts less for this process than its allocator holds (a MIG or shared device)"
        )
    if any([one.used_bytes is None for one in others]):
        return Shares(outside, None, "the driver does not tell the bytes of every other process")
    return Shares(outside, sum(one.used_bytes or 0 for one in others))


def _bare(uuid: str) -> str:
    """Without "GPU-" or "MIG-": torch has the number alone."""
    return uuid.partition("-")[2] if uuid.startswith(("GPU-", "MIG-")) else uuid
