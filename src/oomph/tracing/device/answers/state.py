"""What the answers share: where functions are put, and which device is the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oomph.tracing.device import guard
from oomph.tracing.recorder.recorder import Recorder


class State:
    """One trace's answers. `current` is the index of the current device: of the process, not of a thread, because a
    traced process has one device at work."""

    def __init__(self, recorder: Recorder) -> None:
        import torch

        self.recorder = recorder
        self.torch: Any = torch
        self.binding: Any = torch._C  # noqa: SLF001 - what torch.cuda itself calls
        self.cuda: Any = torch.cuda
        self.memory: Any = torch.cuda.memory
        self.current = 0
        self.functions: dict[str, Any] = {}
        recorder.patches.when_undone(lambda: setattr(self, "current", 0))

    @property
    def current(self) -> int:
        """The index of the current device."""
        return guard.current[0]

    @current.setter
    def current(self, index: int) -> None:
        guard.current[0] = index

    @property
    def count(self) -> int:
        """How many devices the process sees."""
        return self.recorder.settings.device_count

    @property
    def total_bytes(self) -> int:
        """What each device has in all."""
        settings = self.recorder.settings
        return settings.device_bytes or settings.capacity_bytes or settings.gpu.total_bytes

    def free_bytes(self, device: int) -> int:
        """What cudaMemGetInfo says is free: what PyTorch may have, less what it reserved."""
        capacity = self.recorder.settings.capacity_bytes
        capacity = self.total_bytes if capacity is None else capacity
        return max(0, capacity - self.recorder.memory(device).allocator.reserved_bytes)

    def answer(self, **functions: Any) -> None:
        """What is in `torch._C` and torch's own Python code calls. A CPU build lacks most of them."""
        for name, function in functions.items():
            self.recorder.patches.set(self.binding, name, function)
            self.functions[name] = function

    def replace(self, owner: Any, **values: object) -> None:
        """Attributes of a module or class; those that this torch does not have are left out."""
        for name, value in values.items():
            if hasattr(owner, name):
                self.recorder.patches.set(owner, name, value)

    def index(self, device: Any = None) -> int:
        """The index of a device given as PyTorch takes it: None, a number, a string or a torch.device."""
        from torch.cuda._utils import _get_device_index

        return int(_get_device_index(device, optional=True))

    def checked(self, device: int) -> int:
        """`device` if there is one with this index; else the error that CUDA gives."""
        if not 0 <= device < self.count:
            error = getattr(self.torch, "AcceleratorError", RuntimeError)
            raise error(
                "CUDA error: invalid device ordinal\n"
                f"(the trace has {self.count} device{'s' if self.count > 1 else ''}; device {device} was asked for)"
            )
        return device


def front(real: type[Any], make: Callable[..., Any]) -> type[Any]:
    """A class in front of `real`: calling it is `make(real, ...)`, and what is an instance of it is one of `real`."""

    class Front(type):
        def __call__(cls, *arguments: Any, **options: Any) -> Any:
            return make(real, *arguments, **options)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

        def __getattr__(cls, name: str) -> Any:
            return getattr(real, name)

    return Front(real.__name__, (), {"__doc__": real.__doc__, "__module__": real.__module__})
