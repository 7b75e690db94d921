"""The state of one simulated allocator, shared by the parts that work on it."""

from __future__ import annotations

from oomph.memory.allocator import sizes
from oomph.memory.allocator.blocks import Block, Pool, PrivatePool
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.stats import PoolStats, Stats
from oomph.units import GIB

#: Kinds of `Arena.events`; the order of the numbers means nothing.
SEGMENT_ALLOC = 0
SEGMENT_FREE = 1
SEGMENT_MAP = 2
SEGMENT_UNMAP = 3
OOM = 4

DEFAULT_POOL = (0, 0)
#: Reservations of addresses when the size of the device is unknown: 9/8 of more than any device has.
_UNKNOWN_DEVICE_BYTES = 1024 * GIB


class Arena:
    """Pools, blocks, settings as plain numbers, totals and the record of what was asked of the driver.

    `capacity` is what the driver would give this process in all; `limit` PyTorch's own cap (`set_limit`).
    """

    def __init__(
        self,
        settings: AllocatorSettings,
        capacity: int | None,
        driver: Driver,
        record: bool,
        device_total: int | None,
    ) -> None:
        self.settings: AllocatorSettings = settings
        self.driver: Driver = driver
        self.record: bool = record
        self.capacity: int = sizes.UNLIMITED_BYTES if capacity is None else capacity
        device = device_total or capacity or _UNKNOWN_DEVICE_BYTES
        self.reservation: int = device + device // 8
        self.limit: int = sizes.UNLIMITED_BYTES
        self.limited: bool = False
        split = settings.max_split_size_bytes
        self.max_split: int = sizes.UNLIMITED_BYTES if split is None else split
        self.non_split_rounding: int = settings.max_non_split_rounding_bytes
        self.large_segment: int = settings.large_segment_size_bytes
        self.expandable: bool = settings.expandable_segments
        self.private_expandable: bool = settings.private_pools_expand
        self.gc_threshold: float = settings.garbage_collection_threshold
        self.gc: bool = False

        self.small: Pool = Pool(True, None)
        self.large: Pool = Pool(False, None)
        self.private: dict[tuple[int, int], PrivatePool] = {}
        self.freeable: dict[tuple[int, int], PrivatePool] = {}
        self.fallbacks: list[tuple[int, int]] = []
        self.unsplit: set[tuple[int, int]] = set()
        self.active: dict[int, Block] = {}
        self.reserved: int = 0
        self.counts: Stats = Stats()
        self.events: list[tuple[int, int, int, int]] = []

    def note(self, kind: int, address: int, size: int, stream: int) -> None:
        """Records what was asked of the driver (bytes)."""
        if self.record:
            self.events.append((kind, address, size, stream))

    def half(self, pool: Pool) -> PoolStats:
        """The counters of the pool's size class."""
        return self.counts.small if pool.small else self.counts.large

    def expands(self, pool: Pool) -> bool:
        """Whether new memory of the pool comes in expandable segments."""
        return self.expandable and (pool.owner is None or self.private_expandable)

    def page(self, pool: Pool) -> int:
        """What expandable memory of the pool is mapped in."""
        return sizes.SMALL_SEGMENT_BYTES if pool.small else self.large_segment

    def room(self) -> int:
        """What the driver would still give."""
        return self.capacity - self.reserved

    def count_reserved(self, pool: Pool, size: int) -> None:
        """The driver gave `size` bytes."""
        self.reserved += size
        self.counts.device_allocs += 1
        self.counts.all.reserved_bytes.add(size)
        self.half(pool).reserved_bytes.add(size)
        if pool.owner is not None:
            pool.reserved.add(size)
            pool.owner.reserved.add(size)

    def count_released(self, pool: Pool, size: int) -> None:
        """The driver got `size` bytes back."""
        self.reserved -= size
        self.counts.device_frees += 1
        self.counts.all.reserved_bytes.remove(size)
        self.half(pool).reserved_bytes.remove(size)
        if pool.owner is not None:
            pool.reserved.remove(size)
            pool.owner.reserved.remove(size)

    def new_segment(self, pool: Pool, stream: int, size: int) -> Block | None:
        """One segment of the driver as a free block outside the free list; None when the device is full."""
        if size > self.room():
            return None
        address = self.driver.reserve(size, 0 if pool.small else 1)
        block = Block(address, size, stream, pool, None)
        self.count_reserved(pool, size)
        counts = self.counts
        counts.all.segment.add(1)
        self.half(pool).segment.add(1)
        if size >= self.max_split:
            counts.oversize_segments.add(1)
        self.note(SEGMENT_ALLOC, address, size, stream)
        return block

    def release_segment(self, block: Block) -> None:
        """Gives a whole free segment back to the driver."""
        pool = block.pool
        size = block.size
        pool.remove(block)
        self.count_released(pool, size)
        counts = self.counts
        counts.all.segment.remove(1)
        self.half(pool).segment.remove(1)
        if size >= self.max_split:
            counts.oversize_segments.remove(1)
        self.note(SEGMENT_FREE, block.address, size, block.stream)

    def merge(self, block: Block, other: Block | None) -> int:
        """Joins a free neighbour into `block`, which itself is in no list; the bytes joined, 0 when not allowed."""
        if other is None or other.allocated or other.events > 0 or other.uses is not None:
            return 0
        if block.mapped != other.mapped:
            return 0
        if block.prev is other:
            block.address = other.address
            block.prev = other.prev
            if block.prev is not None:
                block.prev.next = block
        else:
            block.next = other.next
            if block.next is not None:
                block.next.prev = block
        if other.mapped:
            block.pool.free[block.stream].remove(other)
        else:
            block.pool.remove_unmapped(other)
        block.size += other.size
        return other.size
