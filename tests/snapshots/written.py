"""Recordings as PyTorch's versions write them: a dict with that version's keys, or a pickle of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oomph.memory.allocator.layout import ALLOCATED, INACTIVE, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from tests.snapshots.device import DOWN, Device
from tests.snapshots.truth import Truth

#: In the order in which they came; each has all that the ones before it have.
ERAS = ("2.0", "2.1", "2.3", "2.4", "2.6", "2.8", "2.9", "2.10", "2.13", "2.14")


@dataclass
class Made:
    """A synthetic snapshot: devices and what is known about the first one that matters (`shown`)."""

    devices: list[Device]
    truth: Truth
    annotations: list[dict[str, Any]] = field(default_factory=list)
    shown: int = 0

    @property
    def device(self) -> Device:
        return self.devices[self.shown]

    def content(self, era: str = "2.10", last: int | None = None) -> dict[str, Any]:
        """The dict that `_snapshot()` of that version gives. `last`: a ring that kept only so many events."""
        made = {
            "segments": [one for device in self.devices for one in _segments(device, era)],
            "device_traces": [_trace(device, era, last) for device in self.devices],
        }
        if since(era, "2.4"):
            made["allocator_settings"] = _settings(self.device.settings, era)
        if since(era, "2.6"):
            made["external_annotations"] = list(self.annotations)
        if since(era, "2.14"):
            made["host_segments"] = []
            made["host_traces"] = []
        return made

    def pickled(self, era: str = "2.10", last: int | None = None, protocol: int = 4) -> bytes:
        return pickle.dumps(self.content(era, last), protocol=protocol)


def since(era: str, first: str) -> bool:
    """Whether the version writes what `first` began to write."""
    return ERAS.index(era) >= ERAS.index(first)


def annotate(annotations: list[dict[str, Any]], device: Device, name: str, stage: str) -> None:
    """The begin or the end of a range that PyTorch or the user named."""
    annotations.append(
        {"name": name, "stage": stage, "device": device.options.index, "time_us": device.clock.tick()}
    )


def _trace(device: Device, era: str, last: int | None) -> list[dict[str, Any]]:
    events = device.events if last is None else device.events[max(0, len(device.events) - last) :]
    return [_event(event, era) for event in events]


def _event(event: dict[str, Any], era: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        key: event[key] for key in ("action", "addr", "device_free", "size", "stream") if key in event
    }
    if since(era, "2.3"):
        result["time_us"] = event["time_us"]
    if since(era, "2.8"):
        result["compile_context"] = "N/A"
    if since(era, "2.10"):
        result["user_metadata"] = ""
    if since(era, "2.13"):
        result["pool_id"] = event["pool_id"]
    if "frames" in event:
        result["frames"] = event["frames"]
    return result


def _segments(device: Device, era: str) -> list[dict[str, Any]]:
    contexts = {tensor.address: tensor.context for tensor in device.alive.values()}
    contexts.update({tensor.address: tensor.context for tensor, _ in device.waiting})
    return [_segment(state, device.options.index, contexts, era) for state in device.allocator.layout()]


def _segment(
    state: SegmentState, index: int, contexts: dict[int, list[dict[str, Any]] | None], era: str
) -> dict[str, Any]:
    active = [block for block in state.blocks if block.state != INACTIVE]
    result: dict[str, Any] = {
        "device": index,
        "address": state.address - DOWN,
        "total_size": state.size,
        "allocated_size": sum(block.size for block in active if block.state == ALLOCATED),
        "active_size": sum(block.size for block in active),
        "requested_size": sum(block.requested for block in active),
        "stream": state.stream,
        "segment_type": "small" if state.small else "large",
    }
    if since(era, "2.1"):
        result["segment_pool_id"] = state.pool
        result["is_expandable"] = state.expandable
        result["frames"] = []
    result["blocks"] = [_block(block, contexts.get(block.address), era) for block in state.blocks]
    return result


def _block(block: Any, frames: list[dict[str, Any]] | None, era: str) -> dict[str, Any]:
    # PyTorch leaves the size of an earlier request in a free block.
    requested = block.requested if block.state != INACTIVE else max(1, block.size // 2)
    result: dict[str, Any] = {"size": block.size, "requested_size": requested, "state": block.state}
    if since(era, "2.1"):
        result["address"] = block.address - DOWN
        result["frames"] = frames or []
    elif frames is not None:
        result["history"] = [{"addr": block.address - DOWN, "real_size": block.requested, "frames": frames}]
    return result


def _settings(settings: AllocatorSettings, era: str) -> dict[str, Any]:
    split = settings.max_split_size_bytes
    divisions: Sequence[int] = settings.roundup_power2_divisions or (0,) * 16
    result = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True" if settings.expandable_segments else "",
        "max_split_size": -1 if split is None else split,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {str(1 << bucket): value for bucket, value in enumerate(divisions)},
    }
    if since(era, "2.9"):
        result["graph_capture_record_stream_reuse"] = False
    return result
