"""What is allocated, reserved and free.

torch's own code formats and flattens; the numbers are the simulated allocator's.
Source: torch/cuda/memory.py and torch/csrc/cuda/Module.cpp, whose functions these stand in for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.errors import SettingsError
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.tracing.device.answers.state import State
from oomph.tracing.errors import TraceRefused

_COUNTED = ("current", "peak", "allocated", "freed")


def nested(flat: dict[str, int]) -> dict[str, Any]:
    """`memory_stats()` as the nested dict that it is flattened from."""
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *groups, last = key.split(".")
        inner = result
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return result


class _Accumulated:
    """What `reset_accumulated_memory_stats` takes off: PyTorch's counts begin anew, the allocator's go on.

    Source: resetAccumulatedStats of c10/cuda/CUDACachingAllocator.cpp.
    """

    def __init__(self) -> None:
        self._before: dict[int, dict[str, int]] = {}

    def reset(self, device: int, allocator: CachingAllocator) -> None:
        self._before[device] = {
            key: value
            for key, value in allocator.stats().items()
            if key.endswith((".allocated", ".freed")) or key in ("num_alloc_retries", "num_ooms")
        }

    def stats(self, device: int, allocator: CachingAllocator) -> dict[str, int]:
        before = self._before.get(device, {})
        return {key: value - before.get(key, 0) for key, value in allocator.stats().items()}


def install(state: State) -> None:
    """The numbers, the cache and the limit."""
    recorder = state.recorder

    def allocator(device: int) -> CachingAllocator:
        return recorder.memory(state.checked(int(device))).allocator

    def empty_cache(*_: object) -> None:
        recorder.empty_cache()

    accumulated = _Accumulated()
    state.answer(
        _cuda_memoryStats=lambda device: nested(accumulated.stats(device, allocator(device))),
        _cuda_resetPeakMemoryStats=lambda device: allocator(device).reset_peaks(),
        _cuda_resetAccumulatedMemoryStats=lambda device: accumulated.reset(device, allocator(device)),
        _cuda_emptyCache=empty_cache,
        _cuda_hostMemoryStats=_host_stats,
        _cuda_resetAccumulatedHostMemoryStats=lambda: None,
        _cuda_resetPeakHostMemoryStats=lambda: None,
        _cuda_getAllocatorBackend=lambda: "native",
        _cuda_cudaCachingAllocator_is_enabled=lambda: True,
        _cuda_cudaCachingAllocator_enable=_enable,
        _cuda_clearCublasWorkspaces=lambda: None,
        _host_emptyCache=lambda: None,
    )
    _install_limit(state)
    _install_raw(state)
    _install_settings(state)


def _enable(value: bool) -> None:
    if not value:
        raise TraceRefused(
            "torch.cuda.caching_allocator_enable(False) cannot be traced: only PyTorch's caching allocator is "
            "simulated; leave the call out of the script for the trace."
        )


def _host_stats() -> dict[str, Any]:
    """Pinned memory of the host is the CPU's in a trace, and none of it is counted."""
    counters = ("allocations", "allocated_bytes", "active_requests", "active_bytes")
    result: dict[str, Any] = {name: dict.fromkeys(_COUNTED, 0) for name in counters}
    result["num_host_alloc"] = result["num_host_free"] = 0
    for name in ("host_alloc_time", "host_free_time"):
        result[name] = dict.fromkeys(("total", "max", "min", "count", "avg"), 0)
    return result


def _install_limit(state: State) -> None:
    recorder = state.recorder
    fractions: dict[int, float] = {}

    def set_fraction(fraction: float, device: int) -> None:
        settings = recorder.settings.allocator
        limit = replace(settings, fraction=fraction).limit_bytes(state.total_bytes)
        recorder.memory(state.checked(device)).allocator.set_limit(limit)
        fractions[device] = fraction

    def get_fraction(device: int) -> float:
        default = recorder.settings.allocator.fraction
        return fractions.get(device, 1.0 if default is None else default)

    state.answer(_cuda_setMemoryFraction=set_fraction, _cuda_getMemoryFraction=get_fraction)


def _install_raw(state: State) -> None:
    """Memory asked of the allocator without a tensor (caching_allocator_alloc)."""
    recorder = state.recorder
    blocks: dict[int, list[Any]] = {}

    def alloc(size: int, stream: int) -> int:
        if size <= 0:
            return 0
        block = recorder.alloc(size, device=state.current, stream=stream, label="caching_allocator_alloc")
        blocks.setdefault(block.address, []).append(block)
        return block.address

    def delete(address: int) -> None:
        held = blocks.get(address)
        if held:
            recorder.free(held.pop())
        elif address:
            raise RuntimeError(f"invalid device pointer: {address:#x}")

    state.answer(_cuda_cudaCachingAllocator_raw_alloc=alloc, _cuda_cudaCachingAllocator_raw_delete=delete)


def _install_settings(state: State) -> None:
    """Settings of the allocator that the script changes while it runs."""
    recorder = state.recorder

    def set_settings(text: str) -> None:
        try:
            wanted = AllocatorSettings.parse(text, recorder.settings.torch)
        except SettingsError as error:
            raise ValueError(str(error)) from None
        before = recorder.settings.allocator
        for device in range(state.count):
            allocator = recorder.memory(device).allocator
            if "expandable_segments" in text:
                allocator.expandable = wanted.expandable_segments
        others = replace(wanted, expandable_segments=before.expandable_segments)
        if others != replace(before, other=wanted.other):
            recorder.note(
                f"The script sets allocator settings while it runs ({text}); of these the trace follows "
                "expandable_segments only. Give the others with PYTORCH_ALLOC_CONF."
            )

    state.answer(
        _accelerator_setAllocatorSettings=set_settings,
        _cuda_cudaCachingAllocator_set_allocator_settings=set_settings,
    )
