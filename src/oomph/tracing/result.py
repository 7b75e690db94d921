"""From what a recorder holds to a Trace."""

from __future__ import annotations

from typing import Any

from oomph.tracing.model import Exact, Trace, TracedDevice
from oomph.tracing.recorder import categories
from oomph.tracing.recorder.memory import DeviceMemory
from oomph.tracing.recorder.recorder import Recorder


def trace_of(recorder: Recorder, seconds: float, **more: Any) -> Trace:
    """The trace so far. `more` are further fields of Trace."""
    import torch

    settings = recorder.settings
    return Trace(
        rank=settings.rank,
        world=settings.world,
        gpu=settings.gpu.name,
        torch=".".join(map(str, settings.torch)),
        installed_torch=str(torch.__version__),
        devices=tuple(_device(recorder, memory) for _, memory in sorted(recorder.devices.items())),
        capacity_bytes=settings.capacity_bytes,
        allocator=_allocator_text(settings.allocator),
        steps_done=recorder.steps_done,
        operators=recorder.operators,
        seconds=seconds,
        windows={index: tuple(memory.windows) for index, memory in recorder.devices.items()},
        suppressed=tuple(recorder.suppressed),
        unruled={name: (count, size) for name, (count, size) in sorted(recorder.unruled.items())},
        uncertain_bytes=recorder.uncertain_bytes,
        assumptions=tuple(recorder.assumptions),
        notes=tuple(recorder.notes),
        **more,
    )


def _device(recorder: Recorder, memory: DeviceMemory) -> TracedDevice:
    alive = {
        block.number for block in (*recorder.storages.alive(), *recorder.kept) if block.device == memory.index
    }
    category = categories.finish(memory, alive)
    number = recorder.label_number("")
    label = []
    for block, kind in zip(memory.allocs, category, strict=True):
        first, second = block.label, block.operator
        if kind in (categories.TEMPORARIES, categories.WORKSPACE):
            first, second = second, first
        label.append(first if first >= 0 else second if second >= 0 else number)
    return TracedDevice(
        index=memory.index,
        segments=memory.segments(),
        timeline=memory.timeline(),
        exact=Exact(
            phase=list(memory.phase),
            step=list(memory.step),
            category=category,
            label=label,
            labels=tuple(recorder.labels),
        ),
    )


def _allocator_text(settings: Any) -> str:
    """Settings as `PYTORCH_ALLOC_CONF` writes them."""
    parts = []
    if settings.expandable_segments:
        parts.append("expandable_segments:True")
    if settings.max_split_size_bytes is not None:
        parts.append(f"max_split_size_mb:{settings.max_split_size_bytes >> 20}")
    if settings.garbage_collection_threshold:
        parts.append(f"garbage_collection_threshold:{settings.garbage_collection_threshold}")
    return ",".join(parts)
