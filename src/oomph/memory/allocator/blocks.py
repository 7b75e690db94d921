"""Blocks, and the ordered sets of free ones.

Source: Block, BlockPool and the two comparators of c10/cuda/CUDACachingAllocator.cpp. PyTorch keeps one set for each
pool, ordered by stream, size, address; as streams never share, here each stream has an ordered set of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from oomph.memory.allocator.errors import ReplayError
from oomph.memory.allocator.stats import Counter


class Reserved:
    """A reservation of addresses for expandable segments; pages count from its start."""

    __slots__ = ("address", "page", "size")

    def __init__(self, address: int, size: int, page: int) -> None:
        self.address = address
        self.size = size
        self.page = page


class Block:
    """A piece of a segment, linked to its neighbours by address.

    A block is free when it is neither `allocated` nor waiting for events (`events` > 0); an unmapped one has
    addresses but no memory. `range` is the reservation of an expandable block. `uses` are the other streams that
    the tensor in the block was used on.
    """

    __slots__ = (
        "address",
        "allocated",
        "born",
        "events",
        "mapped",
        "next",
        "pool",
        "prev",
        "range",
        "requested",
        "size",
        "stream",
        "uses",
    )

    def __init__(self, address: int, size: int, stream: int, pool: Pool, range_: Reserved | None) -> None:
        self.address: int = address
        self.size: int = size
        self.stream: int = stream
        self.pool: Pool = pool
        self.range: Reserved | None = range_
        self.prev: Block | None = None
        self.next: Block | None = None
        self.requested: int = 0
        self.allocated: bool = False
        self.mapped: bool = True
        self.events: int = 0
        self.uses: list[int] | None = None
        self.born: int = 0

    def is_split(self) -> bool:
        """Whether the block is only a part of its segment."""
        return self.prev is not None or self.next is not None

    def is_free(self) -> bool:
        """Whether nobody has it or is still using it (mapped or not)."""
        return not self.allocated and self.events == 0 and self.uses is None

    def insert_between(self, before: Block | None, after: Block | None) -> None:
        """Links the block between two neighbours."""
        self.prev = before
        self.next = after
        if before is not None:
            before.next = self
        if after is not None:
            after.prev = self


class FreeList:
    """Free blocks of one stream of one pool, ordered by size, then address; three lists with the same places."""

    __slots__ = ("addresses", "blocks", "sizes")

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.addresses: list[int] = []
        self.blocks: list[Block] = []

    def place(self, size: int, address: int) -> int:
        """Where a block of this size and address is or belongs."""
        sizes = self.sizes
        place = bisect_left(sizes, size)
        if place < len(sizes) and sizes[place] == size and self.addresses[place] < address:
            place = bisect_left(self.addresses, address, place, bisect_right(sizes, size, place))
        return place

    def insert(self, block: Block) -> None:
        place = self.place(block.size, block.address)
        self.sizes.insert(place, block.size)
        self.addresses.insert(place, block.address)
        self.blocks.insert(place, block)

    def remove(self, block: Block) -> None:
        place = self.place(block.size, block.address)
        if place >= len(self.blocks) or self.blocks[place] is not block:
            raise overlap(block)
        self.remove_at(place)

    def remove_at(self, place: int) -> None:
        del self.sizes[place]
        del self.addresses[place]
        del self.blocks[place]

    def first_at_least(self, size: int) -> int:
        """Index of the smallest block of at least `size` bytes, the lowest address among equals."""
        return bisect_left(self.sizes, size)


class UnmappedList:
    """Unmapped blocks of one stream of one pool, ordered by address."""

    __slots__ = ("addresses", "blocks")

    def __init__(self) -> None:
        self.addresses: list[int] = []
        self.blocks: list[Block] = []

    def insert(self, block: Block) -> None:
        place = bisect_left(self.addresses, block.address)
        self.addresses.insert(place, block.address)
        self.blocks.insert(place, block)

    def remove(self, block: Block) -> None:
        place = bisect_left(self.addresses, block.address)
        if place >= len(self.blocks) or self.blocks[place] is not block:
            raise overlap(block)
        del self.addresses[place]
        del self.blocks[place]


def overlap(block: Block) -> ReplayError:
    """What is wrong when a block is found where another should be."""
    return ReplayError(
        f"Two segments overlap at {block.address:#x}: the addresses given are not those of one device."
    )


class Pool:
    """The small or the large half of a pool. `searches` counts looks for a free block while collection is on.

    `reserved` (bytes) is kept for private pools only.
    """

    __slots__ = ("free", "owner", "reserved", "searches", "small", "unmapped")

    def __init__(self, small: bool, owner: PrivatePool | None) -> None:
        self.small: bool = small
        self.owner: PrivatePool | None = owner
        self.free: dict[int, FreeList] = {}
        self.unmapped: dict[int, UnmappedList] = {}
        self.searches: int = 0
        self.reserved: Counter = Counter()

    def insert(self, block: Block) -> None:
        """Adds a free block; its age counts from here."""
        block.born = self.searches
        stream = block.stream
        known = self.free.get(stream)
        if known is None:
            known = FreeList()
            self.free[stream] = known
        known.insert(block)

    def remove(self, block: Block) -> None:
        self.free[block.stream].remove(block)

    def insert_unmapped(self, block: Block) -> None:
        known = self.unmapped.get(block.stream)
        if known is None:
            known = UnmappedList()
            self.unmapped[block.stream] = known
        known.insert(block)

    def remove_unmapped(self, block: Block) -> None:
        self.unmapped[block.stream].remove(block)

    def in_order(self) -> list[Block]:
        """All free mapped blocks by stream, size, address: the order in which PyTorch walks them."""
        result: list[Block] = []
        for stream in sorted(self.free):
            result.extend(self.free[stream].blocks)
        return result


class PrivatePool:
    """The pools of a CUDA graph or a MemPool. `uses` counts its owners, `reserved` what it holds of the driver."""

    __slots__ = ("identity", "large", "reserved", "small", "uses")

    def __init__(self, identity: tuple[int, int]) -> None:
        self.identity: tuple[int, int] = identity
        self.small: Pool = Pool(True, self)
        self.large: Pool = Pool(False, self)
        self.uses: int = 1
        self.reserved: Counter = Counter()
