"""The simulated card as a PyTorch memory snapshot, and as `torch.cuda.memory_summary` prints it."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

from oomph.memory.allocator.layout import INACTIVE, BlockState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import DIVISION_BUCKETS
from oomph.memory.records import PICKLE_PROTOCOL, event_records, segment_record
from oomph.probe.cpu.card import OOM, Card
from oomph.probe.cpu.history import Event, Frames


def write(content: dict[str, Any], path: Path) -> None:
    """Writes it whole or not at all. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            pickle.dump(content, stream, protocol=PICKLE_PROTOCOL)
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def content(card: Card, frames_by_address: dict[int, Frames]) -> dict[str, Any]:
    """The dict of `torch.cuda.memory._snapshot()`."""
    settings = card.allocator.settings

    def frames_of(block: BlockState) -> Frames:
        return [] if block.state == INACTIVE else frames_by_address.get(block.address, [])

    events = [] if card.history is None else list(card.history.events)
    return {
        "segments": [segment_record(one, 0, settings.torch, frames_of) for one in card.layout()],
        "device_traces": [_events(events, settings.torch)],
        "allocator_settings": _settings(settings),
        "external_annotations": [],
    }


def _events(events: list[Event], torch: tuple[int, int]) -> list[dict[str, Any]]:
    if not events:
        return []
    import numpy as np

    from oomph.memory.timeline import DEFAULT_POOL, Timeline

    count = len(events)
    timeline = Timeline(
        kind=np.array([event.kind for event in events], np.int8),
        address=np.array([0 if event.kind == OOM else event.address for event in events], np.int64),
        size_bytes=np.array([event.size for event in events], np.int64),
        time_us=np.array([event.time_us for event in events], np.int64),
        stream=np.zeros(count, np.int64),
        pool=np.zeros(count, np.int32),
        pools=(DEFAULT_POOL,),
        free_bytes={place: event.address for place, event in enumerate(events) if event.kind == OOM},
    )
    return event_records(timeline, torch, [event.frames for event in events])


def _settings(settings: AllocatorSettings) -> dict[str, Any]:
    """`allocator_settings` as PyTorch writes them. Source: Module.cpp (THCPModule_memorySnapshot)."""
    split = settings.max_split_size_bytes
    divisions = settings.roundup_power2_divisions or (0,) * DIVISION_BUCKETS
    return {
        "PYTORCH_CUDA_ALLOC_CONF": configuration(),
        "max_split_size": -1 if split is None else split,
        "garbage_collection_threshold": float(settings.garbage_collection_threshold),
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {
            str(1 << bucket): divisions[bucket] for bucket in range(DIVISION_BUCKETS)
        },
        "graph_capture_record_stream_reuse": False,
    }


def configuration() -> str:
    """The allocator settings of this process's environment, as written."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        found = os.environ.get(name)
        if found:
            return found
    return ""


def summary(stats: dict[str, int]) -> str:
    """What `torch.cuda.memory_summary(0)` prints of these numbers; torch's own code, given them."""
    from torch.cuda import memory

    names = {**vars(memory), "memory_stats": lambda **_: stats, "_get_device_index": lambda *_, **__: 0}
    original = memory.memory_summary
    printed = FunctionType(original.__code__, names, "memory_summary", original.__defaults__)
    return str(printed())
