"""The functions of torch._C that count a CUDA device's memory, over the simulated allocator: counters that behave as
the real ones do, peaks that one reset lowers for everybody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.settings import AllocatorSettings

GIB = 1 << 30


def nested(flat: dict[str, int]) -> dict[Any, Any]:
    """As `torch._C._cuda_memoryStats` gives it: groups within groups, and pools by their pair of numbers."""
    result: dict[Any, Any] = {}
    for key, value in flat.items():
        *groups, last = key.split(".")
        inner = result
        for group in groups:
            first, _, second = group.partition("_")
            name: Any = (int(first), int(second)) if first.isdigit() and second.isdigit() else group
            inner = inner.setdefault(name, {})
        inner[last] = value
    return result


class FakeCuda:
    """A machine with some devices. `install` puts it under torch until the test is over."""

    def __init__(self, devices: int = 1, capacity_bytes: int = 80 * GIB) -> None:
        settings = AllocatorSettings(torch=(2, 13))
        self.allocators = [CachingAllocator(settings, capacity_bytes, record=False) for _ in range(devices)]
        self.capacity_bytes = capacity_bytes
        self.current = 0
        self.initialized = True
        self.waiting: list[Any] = []
        self.observers: list[Any] = []
        self.histories: list[Any] = []
        self.history = False

    def initialize(self) -> None:
        self.initialized = True
        while self.waiting:
            self.waiting.pop(0)()

    def stats(self, device: int) -> dict[Any, Any]:
        return nested(self.allocators[device].stats())

    def reset(self, device: int) -> None:
        self.allocators[device].reset_peaks()

    def install(self, monkeypatch) -> None:
        import torch

        functions = {
            "_cuda_memoryStats": self.stats,
            "_cuda_resetPeakMemoryStats": self.reset,
            "_accelerator_getDeviceStats": self.stats,
            "_accelerator_resetPeakStats": self.reset,
            "_accelerator_isAllocatorInitialized": lambda: True,
            "_cuda_attach_out_of_memory_observer": self.observers.append,
            "_cuda_isHistoryEnabled": lambda: self.history,
        }
        for name, function in functions.items():
            monkeypatch.setattr(torch._C, name, function, raising=False)
        cuda, memory = torch.cuda, torch.cuda.memory
        for owner in (cuda, memory):
            monkeypatch.setattr(owner, "is_initialized", lambda: self.initialized)
            monkeypatch.setattr(owner, "_get_device_index", self._index)
        monkeypatch.setattr(torch.accelerator.memory, "_get_device_index", self._index)
        monkeypatch.setattr(cuda, "is_available", lambda: True)
        monkeypatch.setattr(cuda, "current_device", lambda: self.current)
        monkeypatch.setattr(cuda, "device_count", lambda: len(self.allocators))
        monkeypatch.setattr(cuda, "_lazy_call", self.waiting.append)
        monkeypatch.setattr(cuda, "get_allocator_backend", lambda: "native", raising=False)
        monkeypatch.setattr(cuda, "get_device_name", lambda _: "NVIDIA Imaginary")
        monkeypatch.setattr(
            cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"{index:08x}-0")
        )
        monkeypatch.setattr(cuda, "mem_get_info", self._mem_get_info)
        monkeypatch.setattr(memory, "_record_memory_history", lambda *a, **k: self.histories.append((a, k)))

    def _index(self, device: Any = None, optional: bool = False, allow_cpu: bool = False) -> int:
        return self.current if device is None else int(getattr(device, "index", device))

    def _mem_get_info(self, device: Any = None) -> tuple[int, int]:
        allocator = self.allocators[self._index(device)]
        return self.capacity_bytes - allocator.reserved_bytes, self.capacity_bytes
