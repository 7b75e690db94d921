"""Plays the part of PyTorch: runs requests and records them as a snapshot would."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from oomph.evidence.snapshot import Snapshot, from_bytes
from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB

_ACTIONS = {
    arena.SEGMENT_ALLOC: "segment_alloc",
    arena.SEGMENT_FREE: "segment_free",
    arena.SEGMENT_MAP: "segment_map",
    arena.SEGMENT_UNMAP: "segment_unmap",
}


#: Made-up addresses lie above all real ones; these are written as real ones would be.
_DOWN = (1 << 56) - (1 << 47)


class Recorder:
    """An allocator whose every event is written down in the order in which PyTorch writes them."""

    def __init__(self, settings: AllocatorSettings, capacity_bytes: int | None = None) -> None:
        self.settings = settings
        self.allocator = CachingAllocator(
            settings, capacity_bytes, Driver.descending(), device_total_bytes=80 * GIB
        )
        self.events: list[dict[str, Any]] = []
        self.live: list[tuple[int, int, int]] = []
        self.pending: list[tuple[int, int, int]] = []
        self._seen = 0

    def malloc(self, size: int, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> int | None:
        """The address, None when there was no memory."""
        try:
            address = self.allocator.malloc(size, stream, pool)
        except DeviceOutOfMemory:
            self._segment_events()
            return None
        self._segment_events()
        self._write("alloc", address, size, stream)
        self.live.append((address, size, stream))
        return address

    def free(self, index: int, *, at_once: bool = True) -> None:
        """Frees a live block. Otherwise than at once, it waits for `complete`."""
        address, size, stream = self.live.pop(index)
        self._write("free_requested", address, size, stream)
        if at_once:
            self.allocator.free(address)
            self._write("free_completed", address, size, stream)
        else:
            self.allocator.free_requested(address)
            self.pending.append((address, size, stream))

    def complete(self, index: int) -> None:
        address, size, stream = self.pending.pop(index)
        self.allocator.complete(address)
        self._write("free_completed", address, size, stream)

    def empty_cache(self) -> None:
        while self.pending:  # PyTorch waits for the events first
            self.complete(0)
        self.allocator.empty_cache()
        self._segment_events()

    def snapshot(self, last: int | None = None) -> Snapshot:
        """The snapshot, with only the last so many events, as a ring that overwrote the rest."""
        return from_bytes(pickle.dumps(self._content(last)), "recorded.pickle")

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self._content(None)))

    def _content(self, last: int | None) -> dict[str, Any]:
        events = self.events if last is None else self.events[len(self.events) - last :]
        return {
            "segments": [_segment(state) for state in self.allocator.layout()],
            "device_traces": [events],
            "allocator_settings": _settings(self.settings),
            "external_annotations": [],
        }

    def _segment_events(self) -> None:
        for kind, address, size, stream in self.allocator.segment_events[self._seen :]:
            if kind == arena.OOM:
                self.events.append({"action": "oom", "device_free": address, "size": size, "stream": stream})
            else:
                self._write(_ACTIONS[kind], address, size, stream)
        self._seen = len(self.allocator.segment_events)

    def _write(self, action: str, address: int, size: int, stream: int) -> None:
        self.events.append({"action": action, "addr": address - _DOWN, "size": size, "stream": stream})


def _segment(state: Any) -> dict[str, Any]:
    return {
        "device": 0,
        "address": state.address - _DOWN,
        "total_size": state.size,
        "stream": state.stream,
        "segment_type": "small" if state.small else "large",
        "segment_pool_id": state.pool,
        "is_expandable": state.expandable,
        "blocks": [
            {
                "address": block.address - _DOWN,
                "size": block.size,
                "requested_size": block.requested,
                "state": block.state,
            }
            for block in state.blocks
        ],
    }


def _settings(settings: AllocatorSettings) -> dict[str, Any]:
    split = settings.max_split_size_bytes
    divisions = settings.roundup_power2_divisions or (0,) * 16
    return {
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": -1 if split is None else split,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "roundup_power2_divisions": {str(1 << bucket): value for bucket, value in enumerate(divisions)},
    }
