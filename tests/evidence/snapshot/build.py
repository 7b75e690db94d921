"""Snapshots as PyTorch's versions write them, built key by key."""

from __future__ import annotations

import pickle
from typing import Any

from oomph.evidence.snapshot import Snapshot, from_bytes
from oomph.units import MIB

FRAMES = [
    {"name": "forward", "filename": "model.py", "line": 12},
    {"name": "train", "filename": "train.py", "line": 40},
]
BASE = 0x7F0000000000
SETTINGS = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "max_split_size": -1,
    "garbage_collection_threshold": 0.0,
    "expandable_segments": False,
    "roundup_power2_divisions": {str(1 << bucket): 0 for bucket in range(16)},
}


def block(address: int, size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": state,
        "frames": [],
        **more,
    }


def segment(address: int = BASE, blocks: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """A segment of one 2 MiB block, unless other blocks are given."""
    if blocks is None:
        blocks = [block(address, 2 * MIB, "inactive")]
    return {
        "device": 0,
        "address": address,
        "total_size": sum(each["size"] for each in blocks),
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
        **more,
    }


def event(action: str, addr: int = BASE, size: int = 512, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1, "frames": [], **more}


def snapshot(
    segments: list[Any] | None = None, traces: list[Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "segments": [segment()] if segments is None else segments,
        "device_traces": [[event("alloc")]] if traces is None else traces,
        "allocator_settings": dict(SETTINGS),
        "external_annotations": [],
        **more,
    }


def read(content: object, protocol: int = 4) -> Snapshot:
    return from_bytes(pickle.dumps(content, protocol=protocol), "run.pickle")
