"""Free pieces inside of what PyTorch has reserved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oomph.memory.allocator.layout import INACTIVE, SegmentState


@dataclass(frozen=True)
class Hole:
    """A free piece. `before` and `after` are the addresses of the blocks that bound it, None at a segment's edge. A
    hole without either is a whole segment, which PyTorch can give back to the driver."""

    address: int
    size: int
    segment_address: int
    segment_size: int
    stream: int
    pool: tuple[int, int]
    small: bool
    expandable: bool
    before: int | None
    after: int | None

    @property
    def is_whole_segment(self) -> bool:
        return self.before is None and self.after is None


def holes(segments: Sequence[SegmentState]) -> list[Hole]:
    """All holes, in the order of the segments; neighbouring free blocks are one hole, as the allocator merges them."""
    return [hole for segment in segments for hole in _of(segment)]


def _of(segment: SegmentState) -> Iterator[Hole]:
    before: int | None = None
    begin: int | None = None
    for block in segment.blocks:
        if block.state == INACTIVE:
            begin = block.address if begin is None else begin
            continue
        if begin is not None:
            yield _hole(segment, begin, block.address, before, block.address)
            begin = None
        before = block.address
    if begin is not None:
        yield _hole(segment, begin, segment.address + segment.size, before, None)


def _hole(segment: SegmentState, begin: int, end: int, before: int | None, after: int | None) -> Hole:
    return Hole(
        begin,
        end - begin,
        segment.address,
        segment.size,
        segment.stream,
        segment.pool,
        segment.small,
        segment.expandable,
        before,
        after,
    )
