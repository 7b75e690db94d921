"""The simulator: PyTorch's CUDA caching allocator without a GPU.

Source: DeviceCachingAllocator of c10/cuda/CUDACachingAllocator.cpp (2.0 to 2.14; `AllocatorSettings.torch` chooses
where versions differ). The rules were checked against real snapshots; see docs/decisions/0006-allocator.md.
"""

from __future__ import annotations

from oomph.memory.allocator import expandable, release, sizes
from oomph.memory.allocator.arena import DEFAULT_POOL, OOM, Arena
from oomph.memory.allocator.blocks import Block, FreeList, Pool, PrivatePool
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory, ReplayError
from oomph.memory.allocator.layout import Reservation, SegmentState
from oomph.memory.allocator.seeding import describe, plant
from oomph.memory.allocator.settings import AllocatorSettings


class CachingAllocator(Arena):
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
        self.waiting: dict[int, list[Block]] = {}
        self.ready: dict[int, int] = {}
        self.deferred: list[Block] = []
        self.capturing: int = 0
        self.scopes: list[tuple[tuple[int, int], frozenset[int] | None]] = []
        total = device_total_bytes if device_total_bytes is not None else capacity_bytes
        if settings.fraction is not None and total is not None:
            self.set_limit(settings.limit_bytes(total))

    # -- requests ------------------------------------------------------------------------------------------------

    def malloc(self, size: int, stream: int = 0, pool: tuple[int, int] = DEFAULT_POOL) -> int:
        """The address of a block for `size` bytes (0 for 0 bytes, which PyTorch never asks for).

        Raises DeviceOutOfMemory when nothing helps; what was released on the way stays released.
        """
        if size <= 0:
            return 0
        if self.ready and self.capturing == 0:
            self._process_events()
        rounded = (size + 511) // 512 * 512
        if self.divisions:
            rounded = sizes.round_size(size, self.divisions, self.least_divisions)
        target = self._pool(rounded, stream, pool)
        block = self._search(target, stream, rounded)
        if block is None:
            block = self._grow(target, stream, rounded)
            if block is None:
                raise self._out_of_memory(stream, size, rounded)
        return self._hand_out(block, size, rounded)

    def free(self, address: int) -> None:
        """Frees a block; at once, unless other streams used it (then after their events). 0 is ignored.

        Raises ReplayError for an address that is not allocated.
        """
        if address == 0:
            return
        block = self._returned(address)
        if block.uses is None:
            self._idle(block)
        elif self.capturing > 0:
            self.deferred.append(block)
        else:
            self._insert_events(block)

    def free_requested(self, address: int) -> None:
        """The first half of a free: the owner gave the block back, and it stays in use until `complete`.

        Raises ReplayError for an address that is not allocated.
        """
        block = self._returned(address)
        block.uses = None
        block.events = 1

    def complete(self, address: int) -> None:
        """Nothing uses the freed block any more: it may be merged and reused.

        Raises ReplayError for an address that is not waiting.
        """
        block = self.active.get(address)
        if block is None or block.allocated:
            raise ReplayError(f"No block waits for completion at {address:#x}.")
        self._drop_events(block)
        self._idle(block)

    def record_stream(self, address: int, stream: int) -> None:
        """The block is used on another stream too (its own does not count).

        Raises ReplayError for an address that is not allocated.
        """
        block = self.active.get(address)
        if block is None or not block.allocated:
            raise ReplayError(f"No block is allocated at {address:#x}.")
        if stream == block.stream:
            return
        if block.uses is None:
            block.uses = [stream]
        elif stream not in block.uses:
            block.uses.append(stream)

    def complete_events(self, stream: int) -> None:
        """The stream's work up to now is done; the next request notices, as PyTorch's does."""
        known = self.waiting.get(stream)
        if known:
            self.ready[stream] = len(known)

    def empty_cache(self, pool: tuple[int, int] | None = None) -> None:
        """As `torch.cuda.empty_cache()`: waits for all events, releases all that is free. With `pool`, only there."""
        self._release_cached(pool)

    # -- private pools and the limit -----------------------------------------------------------------------------

    def begin_pool(
        self, pool: tuple[int, int], streams: list[int] | None = None, capture: bool = True
    ) -> None:
        """Requests (of these streams; None: of all) go to this pool until `end_pool`; creates it when it is new.

        With `capture`, a CUDA graph is being captured: events are neither asked nor waited for meanwhile.
        """
        known = self.private.get(pool)
        if known is None:
            self.private[pool] = PrivatePool(pool)
        elif not any(open_pool == pool for open_pool, _ in self.scopes):
            known.uses += 1
            self.freeable.pop(pool, None)
        self.scopes.append((pool, None if streams is None else frozenset(streams)))
        if capture:
            self.capturing += 1

    def end_pool(self, pool: tuple[int, int], capture: bool = True) -> None:
        """Ends the last `begin_pool` of this pool; the pool keeps its owner. Raises ReplayError when none is open."""
        for place in range(len(self.scopes) - 1, -1, -1):
            if self.scopes[place][0] == pool:
                del self.scopes[place]
                if capture:
                    self.capturing -= 1
                return
        raise ReplayError(f"Pool {pool} is not open.")

    def release_pool(self, pool: tuple[int, int]) -> None:
        """An owner of the pool is gone. With the last one its free memory can be released.

        Raises ReplayError for a pool without an owner.
        """
        known = self.private.get(pool)
        if known is None or known.uses == 0:
            raise ReplayError(f"Pool {pool} has no owner.")
        known.uses -= 1
        if known.uses == 0:
            self.freeable[pool] = known

    def set_limit(self, limit_bytes: int | None) -> None:
        """Caps what this allocator reserves (as `set_per_process_memory_fraction`); None lifts the cap."""
        self.limited = limit_bytes is not None
        self.limit = sizes.UNLIMITED_BYTES if limit_bytes is None else limit_bytes
        self.gc = self.limited and self.gc_threshold > 0.0

    # -- what a request does -------------------------------------------------------------------------------------

    def _pool(self, rounded: int, stream: int, pool: tuple[int, int]) -> Pool:
        if self.scopes and pool == DEFAULT_POOL:
            for name, streams in reversed(self.scopes):
                if streams is None or stream in streams:
                    pool = name
                    break
        if pool == DEFAULT_POOL:
            return self.small if rounded <= sizes.SMALL_BYTES else self.large
        private = self.private.get(pool)
        if private is None:
            private = PrivatePool(pool)
            self.private[pool] = private
        return private.small if rounded <= sizes.SMALL_BYTES else private.large

    def _search(self, pool: Pool, stream: int, rounded: int) -> Block | None:
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
            place = self._prefer(free, place, self.expands(pool))
            if place < 0:
                return None
            block = free.blocks[place]
        if rounded < self.max_split:
            if block.size >= self.max_split:
                return None
        elif block.size >= rounded + self.non_split_rounding:
            return None
        del free.keys[place]
        del free.blocks[place]
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
        if block is None and release.release_available(self, pool, stream, rounded):
            block = self._ask(pool, stream, rounded)
        if block is None and self.capturing == 0:
            self._release_cached(None)
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

    def _out_of_memory(self, stream: int, size: int, rounded: int) -> DeviceOutOfMemory:
        free = None if self.capacity >= sizes.UNLIMITED_BYTES else self.room()
        self.counts.ooms += 1
        self.note(OOM, 0 if free is None else free, rounded, stream)
        return DeviceOutOfMemory(
            requested=size,
            rounded=rounded,
            segment=sizes.segment_size(rounded, self.large_segment),
            free=free,
            reserved=self.reserved,
            allocated=self.counts.all.allocated_bytes.current,
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
        block.allocated = True
        block.requested = size
        self.active[block.address] = block
        self.counts.all.block_taken(block.size, size)
        half.block_taken(block.size, size)
        if block.size >= self.max_split:
            self.counts.oversize_allocations.add(1)
        return block.address

    def _splits(self, pool: Pool, rounded: int, rest: int) -> bool:
        if pool.small or (self.expandable and self.expands(pool)):
            return rest >= sizes.MIN_BLOCK_BYTES
        return rounded < self.max_split and rest > sizes.SMALL_BYTES

    # -- what a free does ----------------------------------------------------------------------------------------

    def _returned(self, address: int) -> Block:
        block = self.active.get(address)
        if block is None or not block.allocated:
            raise ReplayError(f"No block is allocated at {address:#x}.")
        block.allocated = False
        self.counts.all.block_returned(block.size)
        (self.counts.small if block.pool.small else self.counts.large).block_returned(block.size)
        if block.size >= self.max_split:
            self.counts.oversize_allocations.remove(1)
        return block

    def _idle(self, block: Block) -> None:
        """Merges a block that nobody uses with its free neighbours and puts it into its list."""
        pool = block.pool
        size = block.size
        requested = block.requested
        del self.active[block.address]
        count = 0
        change = 0
        if block.prev is not None:
            joined = self.merge(block, block.prev)
            if joined > 0:
                count -= 1
                change -= joined
        if block.next is not None:
            joined = self.merge(block, block.next)
            if joined > 0:
                count -= 1
                change -= joined
        pool.insert(block)
        half = self.counts.small if pool.small else self.counts.large
        if block.range is None:
            if block.prev is not None or block.next is not None:
                count += 1
                change += block.size
            self.counts.all.split_changed(count, change)
            half.split_changed(count, change)
        self.counts.all.block_idle(size, requested)
        half.block_idle(size, requested)

    def _insert_events(self, block: Block) -> None:
        """One event for each other stream that used the block; a stream's events come true in order."""
        assert block.uses is not None
        for stream in block.uses:
            block.events += 1
            self.waiting.setdefault(stream, []).append(block)
        block.uses = None

    def _process_events(self) -> None:
        for block in self.deferred:
            self._insert_events(block)
        self.deferred.clear()
        for stream in sorted(self.ready):
            done = self.ready[stream]
            queue = self.waiting[stream]
            for block in queue[:done]:
                block.events -= 1
                if block.events == 0:
                    self._idle(block)
            del queue[:done]
        self.ready.clear()

    def _wait_for_all(self) -> None:
        """As synchronize_and_free_events: every event of every stream has come true."""
        self.counts.syncs += 1
        for block in self.deferred:
            self._insert_events(block)
        self.deferred.clear()
        for stream in sorted(self.waiting):
            for block in self.waiting[stream]:
                block.events -= 1
                if block.events == 0:
                    self._idle(block)
        self.waiting.clear()
        self.ready.clear()

    def _drop_events(self, block: Block) -> None:
        """Forgets what the block waits for."""
        if block in self.deferred:
            self.deferred.remove(block)
        for stream, queue in self.waiting.items():
            if block in queue:
                place = queue.index(block)
                queue.remove(block)
                if self.ready.get(stream, 0) > place:
                    self.ready[stream] -= 1
        block.events = 0
        block.uses = None

    def _release_cached(self, only: tuple[int, int] | None) -> None:
        if only is None or only == DEFAULT_POOL:
            self._wait_for_all()
            release.release_pool(self, self.large)
            release.release_pool(self, self.small)
        for name, pool in list(self.freeable.items()):
            if only is not None and only != DEFAULT_POOL and name != only:
                continue
            release.release_pool(self, pool.small)
            release.release_pool(self, pool.large)
            if pool.segments == 0:
                del self.freeable[name]
                self.private.pop(name, None)

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
        return self.counts.memory_stats(-1 if self.max_split == sizes.UNLIMITED_BYTES else self.max_split)


def _growable(block: Block) -> int:
    """The block's size with the unmapped addresses right behind it."""
    after = block.next
    return block.size if after is None or after.mapped else block.size + after.size
