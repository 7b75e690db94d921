"""Events and segments as the dicts of a PyTorch memory snapshot.

Source: torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot), torch/cuda/memory.py; which keys a version writes is in
docs/snapshots.md, "Reading".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oomph.memory.allocator.layout import ALLOCATED, INACTIVE, BlockState, SegmentState
from oomph.memory.timeline import UNKNOWN, Kind, Timeline

#: What torch.cuda.memory._dump_snapshot uses on every Python that PyTorch supports (3.8 to 3.13).
PICKLE_PROTOCOL = 4

#: The words of snapshots for what happened.
ACTIONS = {
    "alloc": Kind.ALLOC,
    "free_requested": Kind.FREE_REQUESTED,
    "free_completed": Kind.FREE_COMPLETED,
    "segment_alloc": Kind.SEGMENT_ALLOC,
    "segment_free": Kind.SEGMENT_FREE,
    "segment_map": Kind.SEGMENT_MAP,
    "segment_unmap": Kind.SEGMENT_UNMAP,
    "oom": Kind.OOM,
    "snapshot": Kind.SNAPSHOT,
    "annotate": Kind.ANNOTATE,
}
ACTION_NAMES = {int(kind): action for action, kind in ACTIONS.items()}

Record = dict[str, Any]


def event_records(
    timeline: Timeline, torch: tuple[int, int], frames: Sequence[list[Record]] | None = None
) -> list[Record]:
    """One dict per event, in the format of the PyTorch version `torch`. `frames` holds the stack of each event. What
    oomph does not keep (`compile_context`, `user_metadata`) has the value that PyTorch gives when there is none."""
    columns = (timeline.address, timeline.size_bytes, timeline.stream)
    events: list[Record] = [
        {"action": ACTION_NAMES[kind], "addr": address, "size": size, "stream": stream}
        for kind, address, size, stream in zip(
            timeline.kind.tolist(), *(column.tolist() for column in columns), strict=True
        )
    ]
    times = timeline.time_us
    if torch >= (2, 3) and bool((times != UNKNOWN).any()):
        for event, time in zip(events, times.tolist(), strict=True):
            event["time_us"] = time
    for event, stack in zip(events, frames or (), strict=False):
        event["frames"] = stack
    if torch >= (2, 13):
        for position in (timeline.pool != UNKNOWN).nonzero()[0].tolist():
            events[position]["pool_id"] = timeline.pools[timeline.pool[position]]
    for position in timeline.positions(Kind.OOM).tolist():
        event = events[position]
        del event["addr"]
        free = timeline.free_bytes.get(position)
        if free is not None:
            event["device_free"] = free
    for event in events if torch >= (2, 8) else ():
        event["compile_context"] = "N/A"
    for event in events if torch >= (2, 10) else ():
        event["user_metadata"] = ""
    return events


def segment_record(
    segment: SegmentState,
    device: int,
    torch: tuple[int, int],
    frames_of: Callable[[BlockState], list[Record]],
) -> Record:
    """A segment with its blocks. `frames_of` gives the stack of a block; [] where none is known."""
    used = [block for block in segment.blocks if block.state != INACTIVE]
    record: Record = {
        "device": device,
        "address": segment.address,
        "total_size": segment.size,
        "stream": segment.stream,
        "segment_type": "small" if segment.small else "large",
        "allocated_size": sum(block.size for block in used if block.state == ALLOCATED),
        "active_size": sum(block.size for block in used),
        "requested_size": sum(block.requested for block in used),
        "blocks": [_block_record(block, torch, frames_of(block)) for block in segment.blocks],
    }
    if torch >= (2, 1):
        record.update(segment_pool_id=segment.pool, is_expandable=segment.expandable, frames=[])
    return record


def _block_record(block: BlockState, torch: tuple[int, int], frames: list[Record]) -> Record:
    record: Record = {"size": block.size, "requested_size": block.requested, "state": block.state}
    if torch >= (2, 1):
        record.update(address=block.address, frames=frames)
    elif frames:
        record["history"] = [{"addr": block.address, "real_size": block.requested, "frames": frames}]
    return record
