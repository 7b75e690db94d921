"""The `segments` of a snapshot: checked, sorted by device and address."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.evidence.snapshot.caps import Caps
from oomph.evidence.snapshot.values import (
    MOST,
    MOST_BYTES,
    MalformedError,
    as_dict,
    as_flag,
    as_int,
    as_list,
    as_text,
    pool_of,
    size_of,
)
from oomph.memory.allocator.layout import ALLOCATED, INACTIVE, PENDING_FREE, BlockState, SegmentState
from oomph.memory.stacks import Stacks

#: The source writes active_pending_free, torch.cuda's documentation says active_awaiting_free.
_STATES = {
    "active_allocated": ALLOCATED,
    "active_pending_free": PENDING_FREE,
    "active_awaiting_free": PENDING_FREE,
    "inactive": INACTIVE,
}


class Segments:
    """Reads segment after segment. `by_device` and `block_stacks` hold the result, by device index."""

    def __init__(self, caps: Caps, stacks: Stacks) -> None:
        self._caps = caps
        self._stacks = stacks
        self._blocks = 0
        self.by_device: dict[int, list[SegmentState]] = {}
        self.block_stacks: dict[int, dict[int, int]] = {}

    def read(self, raw: list[object]) -> None:
        """All of `segments`. Raises MalformedError."""
        if len(raw) > self._caps.segments:
            raise MalformedError(f"it lists {len(raw)} segments")
        for record in raw:
            self._segment(as_dict(record, "a segment"))
        for device, segments in self.by_device.items():
            segments.sort(key=lambda segment: segment.address)
            _check_apart(device, segments)

    def _segment(self, record: dict[str, object]) -> None:
        device = as_int(record.get("device"), "device of a segment")
        if device >= self._caps.devices:
            raise MalformedError(f"a segment is on device {device}")
        kind = as_text(record.get("segment_type"), "segment_type")
        if kind not in ("small", "large"):
            raise MalformedError("segment_type is neither small nor large")
        segment = SegmentState(
            address=size_of(record, "address", "a segment"),
            size=size_of(record, "total_size", "a segment"),
            stream=as_int(record.get("stream"), "stream of a segment", -(1 << 63)),
            pool=pool_of(record, "segment_pool_id", "a segment"),
            small=kind == "small",
            expandable=as_flag(record.get("is_expandable", False), "is_expandable"),
            blocks=[],
        )
        self._read_blocks(segment, as_list(record.get("blocks"), "blocks of a segment"), device)
        self.by_device.setdefault(device, []).append(segment)

    def _read_blocks(self, segment: SegmentState, raw: list[object], device: int) -> None:
        """Blocks cover their segment without a gap; PyTorch 2.0 therefore wrote no addresses."""
        self._blocks += len(raw)
        if self._blocks > self._caps.blocks:
            raise MalformedError(f"it lists more than {self._caps.blocks} blocks")
        here = segment.address
        stacks = self.block_stacks.setdefault(device, {})
        for item in raw:
            record = as_dict(item, "a block")
            if as_int(record.get("address", here), "address of a block") != here:
                raise MalformedError("the blocks of a segment do not follow each other")
            size = size_of(record, "size", "a block")
            state = _STATES.get(as_text(record.get("state"), "state of a block"))
            if state is None:
                raise MalformedError("a block's state is unknown")
            # An inactive block keeps the size of an earlier user's request, which means nothing.
            requested = (
                0 if state == INACTIVE else as_int(record.get("requested_size", size), "requested_size")
            )
            requested = min(requested, size)
            segment.blocks.append(BlockState(here, size, requested, state))
            if state != INACTIVE:
                number = self._stacks.number(_frames(record))
                if number >= 0:
                    stacks[here] = number
            here += size
        if here != segment.address + segment.size:
            raise MalformedError("the blocks of a segment do not add up to its size")


def _frames(record: dict[str, object]) -> Sequence[object] | None:
    """A block's stack; PyTorch 2.0 kept it in the block's history, newest entry first."""
    frames = record.get("frames")
    if frames is None and (history := record.get("history")):
        newest = as_dict(as_list(history, "history of a block")[0], "history of a block")
        frames = newest.get("frames")
    if frames is None or type(frames) is tuple:
        return frames
    return as_list(frames, "frames of a block")


def _check_apart(device: int, segments: list[SegmentState]) -> None:
    end = -1
    for segment in segments:
        if segment.size <= 0 or segment.address < end:
            raise MalformedError(f"segments of device {device} overlap")
        end = segment.address + segment.size
        if end > MOST:
            raise MalformedError(f"a segment of device {device} ends beyond all addresses")
    if sum(segment.size for segment in segments) > MOST_BYTES:
        raise MalformedError(f"the segments of device {device} add up to more than any device has")
