"""The simulator: PyTorch's CUDA caching allocator without a GPU.

Source: DeviceCachingAllocator of c10/cuda/CUDACachingAllocator.cpp (2.0 to 2.14; `AllocatorSettings.torch` chooses
where versions differ). The rules were checked against real snapshots; see docs/decisions/0006-allocator.md.
"""

from __future__ import annotations

from oomph.memory.allocator import expandable, release, sizes
from oomph.memory.allocator.arena import DEFAULT_POOL, OOM
from oomph.memory.allocator.blocks import Block, FreeList, Pool, overlap
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.layout import Reservation, SegmentState
from oomph.memory.allocator.pools import PooledArena
from oomph.memory.allocator.report import report
from oomph.memory.allocator.seeding import describe, plant
from oomph.memory.allocator.settings import AllocatorSettings


class CachingAllocator(PooledArena):
    """One device's allocator. Sizes and addresses are bytes; a pool is a pair, (0, 0) the default pool.

    `capacity_bytes` is what the driver gives this process in all (None: never full); `device_total_bytes` the size
    of the device, by which `settings.fraction` and reservations count (default: the capacity). `driver` says where
    segments start (default: as on Linux). With `record`, `segment_events` lists what was asked of the driver.

    Other streams' work ends when the caller says so: `complete_events` for a stream, `complete` for one block.
    """

    def __init__(
        self,
        settings: AllocatorSettings,
        capacity_bytes: int | None = None,
        driver: Driver | None = None,
        record: bool = True,
        device_total_bytes: int | None = None,
    ) -> None:
        super().__init__(
            settings,
            capacity_bytes,
            Driver.descending() if driver is None else driver,
            record,
            device_total_bytes,
        )
        self.divisions: tuple[int, ...] = settings.roundup_power2_divisions
        self.least_divisions: int = settings.least_divisions
        self.throws: bool = settings.throw_on_cudamalloc_oom
        total = device_total_bytes if device_total_bytes is not None else capacity_bytes
        if settings.fraction is not None and total is not None:
            self.set_limit(settings.limit_bytes(total))

    # -- requests ------------------------------------------------------------------------------------------------

    def malloc(self, size: int, stream: int = 0, pool: tuple[int, int] = DEFAULT_POOL) -> int:
        """The address of a block for `size` bytes (0 for 0 bytes, which PyTorch never asks for).

        Raises DeviceOutOfMemory when nothing helps; what was released on the way stays released. Raises ReplayError
        when the driver gave an address that is in use.
        """
        if size <= 0:
            return 0
        if (self.ready or self.deferred) and not self.scopes:
            self._process_events()
        rounded = (size + 511) // 512 * 512
        if self.divisions:
            rounded = sizes.round_size(size, self.divisions, self.least_divisions)
        target = self._pool(rounded, stream, pool)
        block = self._search(target, stream, rounded, self.expandable)
        if block is None:
            block = self._grow(target, stream, rounded)
            if block is None:
                raise self._out_of_memory(stream, size, rounded)
        return self._hand_out(block, size, rounded)

    # -- what a request does -------------------------------------------------------------------------------------

    def _search(self, pool: Pool, stream: int, rounded: int, expands: bool) -> Block | None:
        """Best fit among the free blocks of the stream, lowest address among equals; taken out of the list."""
        if self.gc:
            pool.searches += 1
        free = pool.free.get(stream)
        if free is None:
            return None
        place = free.first_at_least(rounded)
        if place >= len(free.blocks):
            return None
        block = free.blocks[place]
        if block.range is not None:
            place = self._prefer(free, place, expands)
            if place < 0:
                return None
            block = free.blocks[place]
        if rounded < self.max_split:
            if block.size >= self.max_split:
                return None
        elif block.size >= rounded + self.non_split_rounding:
            return None
        free.remove_at(place)
        return block

    def _prefer(self, free: FreeList, place: int, expands: bool) -> int:
        """Among expandable blocks: one that can grow counts as large as it can grow. -1 when none fits.

        With expandable segments switched off, such blocks are passed over.
        """
        blocks = free.blocks
        count = len(blocks)
        if not expands:
            while place < count and blocks[place].range is not None:
                place += 1
            return place if place < count else -1
        while place + 1 < count and blocks[place].range is not None:
            if _growable(blocks[place + 1]) >= _growable(blocks[place]):
                break
            place += 1
        return place

    def _grow(self, pool: Pool, stream: int, rounded: int) -> Block | None:
        """No cached block fits: collect, ask the driver, release, ask again; in PyTorch's order."""
        if self.gc:
            release.collect_garbage(self)
        block = self._ask(pool, stream, rounded)
        if block is None and self._rejects(rounded):
            return None
        if block is None and self.fallbacks and pool.owner is None:
            block = self._fall_back(stream, rounded)
        if block is None and release.release_available(self, pool, stream, rounded):
            block = self._ask(pool, stream, rounded)
        if block is None and not self.scopes:
            self.empty_cache()
            self.counts.retries += 1
            block = self._ask(pool, stream, rounded)
        return block

    def _ask(self, pool: Pool, stream: int, rounded: int) -> Block | None:
        size = sizes.segment_size(rounded, self.large_segment)
        if self.limited and self.reserved + size > self.limit:
            return None
        if self.expands(pool):
            return expandable.allocate(self, pool, stream, rounded)
        return self.new_segment(pool, stream, size)

    def _fall_back(self, stream: int, rounded: int) -> Block | None:
        """A free block of a pool that was opted in with `use_on_oom`."""
        for name in self.fallbacks:
            if name in self.private:
                block = self._search(self._pool(rounded, stream, name), stream, rounded, False)
                if block is not None:
                    return block
        return None

    def _rejects(self, rounded: int) -> bool:
        """Whether `throw_on_cudamalloc_oom` refuses what would exceed the cap, before anything is released for it."""
        size = sizes.segment_size(rounded, self.large_segment)
        return self.throws and self.limited and self.reserved + size > self.limit

    def _out_of_memory(self, stream: int, size: int, rounded: int) -> DeviceOutOfMemory:
        free = None if self.capacity >= sizes.UNLIMITED_BYTES else self.room()
        rejected = self._rejects(rounded)
        if rejected:
            self.counts.rejections += 1
        else:
            self.counts.ooms += 1
            self.note(OOM, 0 if free is None else free, rounded, stream)
        return DeviceOutOfMemory(
            requested=size,
            rounded=rounded,
            segment=sizes.segment_size(rounded, self.large_segment),
            free=free,
            reserved=self.reserved,
            allocated=self.counts.all.allocated_bytes.current,
            rejected=rejected,
        )

    def _hand_out(self, block: Block, size: int, rounded: int) -> int:
        pool = block.pool
        half = self.counts.small if pool.small else self.counts.large
        was_split = block.prev is not None or block.next is not None
        fixed = block.range is None
        rest = block.size - rounded
        if self._splits(pool, rounded, rest):
            front = Block(block.address, rounded, block.stream, pool, block.range)
            before = block.prev
            front.prev = before
            if before is not None:
                before.next = front
            front.next = block
            block.prev = front
            block.address += rounded
            block.size = rest
            pool.insert(block)
            block = front
            if fixed:
                count, change = (0, -rounded) if was_split else (1, rest)
                self.counts.all.split_changed(count, change)
                half.split_changed(count, change)
        elif was_split and fixed:
            self.counts.all.split_changed(-1, -block.size)
            half.split_changed(-1, -block.size)
        if block.address in self.active:
            raise overlap(block)
        block.allocated = True
        block.requested = size
        self.active[block.address] = block
        self.counts.all.block_taken(block.size, size)
        half.block_taken(block.size, size)
        if block.size >= self.max_split:
            self.counts.oversize_allocations.add(1)
        return block.address

    def _splits(self, pool: Pool, rounded: int, rest: int) -> bool:
        if pool.owner is not None and pool.owner.identity in self.unsplit:
            return False
        if pool.small or self.expandable:
            return rest >= sizes.MIN_BLOCK_BYTES
        return rounded < self.max_split and rest > sizes.SMALL_BYTES

    # -- looking at it -------------------------------------------------------------------------------------------

    def seed(self, segments: list[SegmentState], reservations: list[Reservation] | None = None) -> None:
        """Starts from these segments instead of an empty device (call it first; peaks start there too).

        Blocks that are pending free wait for `complete`. `reservations` say where expandable memory may grow;
        without one, the ranges of a stream and pool that lie close together share a reservation that starts at the
        lowest.
        """
        plant(self, segments, reservations or [])

    def layout(self) -> list[SegmentState]:
        """Segments in address order with their blocks, as `torch.cuda.memory._snapshot()` shows them."""
        return describe(self)

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats()`: every peak becomes the current value."""
        self.counts.reset_peaks()

    @property
    def segment_events(self) -> list[tuple[int, int, int, int]]:
        """(kind, address, size, stream) in order; for OOM the address is what was free, the size the request."""
        return self.events

    @property
    def reserved_bytes(self) -> int:
        return self.counts.all.reserved_bytes.current

    @property
    def allocated_bytes(self) -> int:
        return self.counts.all.allocated_bytes.current

    @property
    def active_bytes(self) -> int:
        return self.counts.all.active_bytes.current

    @property
    def requested_bytes(self) -> int:
        return self.counts.all.requested_bytes.current

    @property
    def peak_reserved_bytes(self) -> int:
        return self.counts.all.reserved_bytes.peak

    @property
    def peak_allocated_bytes(self) -> int:
        return self.counts.all.allocated_bytes.peak

    @property
    def peak_active_bytes(self) -> int:
        return self.counts.all.active_bytes.peak

    @property
    def peak_requested_bytes(self) -> int:
        return self.counts.all.requested_bytes.peak

    @property
    def num_alloc_retries(self) -> int:
        return self.counts.retries

    @property
    def num_ooms(self) -> int:
        return self.counts.ooms

    def stats(self) -> dict[str, int]:
        """The keys and values of `torch.cuda.memory_stats()`."""
        return report(self)


def _growable(block: Block) -> int:
    """The block's size with the unmapped addresses right behind it."""
    after = block.next
    return block.size if after is None or after.mapped else block.size + after.size
