"""What nvidia-smi would say of the device: memory from the simulation, no load.

Source: torch/cuda/__init__.py and torch/cuda/memory.py, whose functions ask NVML.
"""

from __future__ import annotations

import os
from typing import Any

from oomph.tracing.device.answers.state import State


def install(state: State) -> None:
    """The functions that ask NVML."""
    recorder, cuda = state.recorder, state.cuda

    def reading(value: int) -> Any:
        def read(device: Any = None) -> int:
            state.checked(state.index(device))
            recorder.assume("utilization, temperature, power and clock of the GPU are read as 0")
            return value

        return read

    def used(device: Any = None) -> int:
        index = state.checked(state.index(device))
        return state.total_bytes - state.free_bytes(index)

    def processes(device: Any = None) -> str:
        index = state.checked(state.index(device))
        megabytes = used(index) / (1024 * 1024)
        return f"GPU:{index}\nprocess {os.getpid():>10d} uses {megabytes:>12.3f} MB GPU memory"

    names = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")
    state.replace(cuda, **{name: reading(0) for name in names}, device_memory_used=used)
    for owner in (cuda, state.memory):
        state.replace(owner, list_gpu_processes=processes)
