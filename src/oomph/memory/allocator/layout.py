"""Segments and blocks as plain data: what a simulation can start from, and what it looks like at a moment."""

from __future__ import annotations

#: The states of a block, in the words of PyTorch's snapshots.
ALLOCATED = "active_allocated"
PENDING_FREE = "active_pending_free"
INACTIVE = "inactive"


class BlockState:
    """One block. `size` and `requested` are bytes; `requested` is 0 for an inactive block."""

    __slots__ = ("address", "requested", "size", "state")

    def __init__(self, address: int, size: int, requested: int, state: str) -> None:
        self.address = address
        self.size = size
        self.requested = requested
        self.state = state

    def key(self) -> tuple[int, int, int, str]:
        """All of it as one comparable value."""
        return (self.address, self.size, self.requested, self.state)

    def __repr__(self) -> str:
        return f"BlockState({self.address:#x}, {self.size}, {self.requested}, {self.state!r})"


class SegmentState:
    """One segment: memory that the driver gave in one piece, or one contiguous mapped range of expandable memory.

    `stream` and `pool` (a pair; (0, 0) is the default pool) are PyTorch's; `small` says which of the two size
    classes it serves. `blocks` are in address order and cover the segment without a gap.
    """

    __slots__ = ("address", "blocks", "expandable", "pool", "size", "small", "stream")

    def __init__(
        self,
        address: int,
        size: int,
        stream: int,
        pool: tuple[int, int],
        small: bool,
        expandable: bool,
        blocks: list[BlockState],
    ) -> None:
        self.address = address
        self.size = size
        self.stream = stream
        self.pool = pool
        self.small = small
        self.expandable = expandable
        self.blocks = blocks

    def key(self) -> tuple[int, int, int, tuple[int, int], bool, bool]:
        """All but the blocks as one comparable value."""
        return (self.address, self.size, self.stream, self.pool, self.small, self.expandable)

    def __repr__(self) -> str:
        return (
            f"SegmentState({self.address:#x}, {self.size}, stream={self.stream}, {len(self.blocks)} blocks)"
        )


class Reservation:
    """A range of addresses set aside for expandable segments of one stream and pool, of which parts are mapped."""

    __slots__ = ("address", "pool", "size", "small", "stream")

    def __init__(self, address: int, size: int, stream: int, pool: tuple[int, int], small: bool) -> None:
        self.address = address
        self.size = size
        self.stream = stream
        self.pool = pool
        self.small = small
