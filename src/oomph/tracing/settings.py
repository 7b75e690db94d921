"""What a trace is of: the GPU, the torch it speaks for, and where it stops."""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.hardware.gpus import Gpu
from oomph.memory.allocator.settings import AllocatorSettings

#: Sum of what the choices below leave open is what the report must say.
Version = tuple[int, int]


@dataclass(frozen=True)
class TraceSettings:
    """One traced process.

    `gpu` chooses kernels and names; `capacity_bytes` is what PyTorch may have in all on each device (None: never
    full) and `device_bytes` what the device says it has. `torch` is the version (2, 13) that the trace speaks for:
    where front ends or kernels differ between versions, that one's ways are followed. `steps` ends the run after that
    many optimizer steps (None: where the script ends). `rank` of `world` processes; `device_count` GPUs are visible.
    `stacks` records the Python stack of every allocation.
    """

    gpu: Gpu
    torch: Version
    capacity_bytes: int | None = None
    device_bytes: int | None = None
    allocator: AllocatorSettings = field(default_factory=AllocatorSettings)
    device_count: int = 1
    steps: int | None = None
    rank: int = 0
    world: int = 1
    stacks: bool = True
