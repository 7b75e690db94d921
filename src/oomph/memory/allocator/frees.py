"""Frees: when a block's memory is returned, when nobody uses it any more, and what it then merges with.

Source: free, free_block, insert_events, process_events and synchronize_and_free_events of
c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from oomph.memory.allocator.arena import Arena
from oomph.memory.allocator.blocks import Block, PrivatePool
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import ReplayError
from oomph.memory.allocator.settings import AllocatorSettings


class FreeingArena(Arena):
    """An arena with frees. Other streams' work ends when the caller says so: `complete_events`, `complete`."""

    def __init__(
        self,
        settings: AllocatorSettings,
        capacity: int | None,
        driver: Driver,
        record: bool,
        device_total: int | None,
    ) -> None:
        super().__init__(settings, capacity, driver, record, device_total)
        self.waiting: dict[int, list[Block]] = {}
        self.ready: dict[int, int] = {}
        self.deferred: list[Block] = []
        self.capture_uses: dict[int, list[int]] = {}
        self.scopes: list[tuple[tuple[int, int], frozenset[int] | None]] = []

    def free(self, address: int) -> None:
        """Frees a block; at once, unless other streams used it (then after their events). 0 is ignored.

        Raises ReplayError for an address that is not allocated.
        """
        if address == 0:
            return
        block = self._returned(address)
        if block.uses is None:
            self._idle(block)
        elif self.scopes:
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
        """Nothing uses the freed block any more: it is merged and can be reused.

        Raises ReplayError for an address that is not waiting.
        """
        block = self.active.get(address)
        if block is None or block.allocated:
            raise ReplayError(f"No block waits for completion at {address:#x}.")
        if self.deferred or self.waiting:
            self._drop_events(block)
        block.events = 0
        block.uses = None
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
        if self.scopes:
            self.capture_uses.setdefault(address, []).append(stream)

    def complete_events(self, stream: int | None = None) -> None:
        """The stream's work up to now is done (None: every stream's); the next request notices, as PyTorch's does."""
        for known, queue in self.waiting.items():
            if queue and (stream is None or stream == known):
                self.ready[known] = len(queue)

    # Below: for the subclasses.

    def _returned(self, address: int) -> Block:
        """The owner gives the block up: allocated bytes drop now, active ones when nobody uses it."""
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
        uses = block.uses
        block.uses = None
        if uses is not None:
            for stream in uses:
                block.events += 1
                self.waiting.setdefault(stream, []).append(block)

    def _insert_deferred(self) -> None:
        """Frees from during a capture: uses that the capture itself recorded are over with it."""
        for block in self.deferred:
            captured = self.capture_uses.pop(block.address, None)
            if captured is not None and block.uses is not None:
                block.uses = [stream for stream in block.uses if stream not in captured]
            self._insert_events(block)
            if block.events == 0:
                self._idle(block)
        self.deferred.clear()

    def _process_events(self) -> None:
        """What every request does first: frees blocks whose events have come true."""
        self._insert_deferred()
        for stream in sorted(self.ready):
            done = self.ready[stream]
            queue = self.waiting[stream]
            for block in queue[:done]:
                block.events -= 1
                if block.events == 0:
                    self._idle(block)
            del queue[:done]
            if not queue:
                del self.waiting[stream]
        self.ready.clear()

    def _wait_for_events(self, owner: PrivatePool | None = None) -> None:
        """Every event (of blocks of this private pool) has come true."""
        self.counts.syncs += 1
        self._insert_deferred()
        for stream in sorted(self.waiting):
            kept: list[Block] = []
            for block in self.waiting[stream]:
                if owner is not None and block.pool.owner is not owner:
                    kept.append(block)
                    continue
                block.events -= 1
                if block.events == 0:
                    self._idle(block)
            if kept:
                self.waiting[stream] = kept
            else:
                del self.waiting[stream]
        self.ready.clear()

    def _drop_events(self, block: Block) -> None:
        """Forgets what the block waits for."""
        if block in self.deferred:
            self.deferred.remove(block)
        for stream, queue in self.waiting.items():
            if block in queue:
                if self.ready.get(stream, 0) > queue.index(block):
                    self.ready[stream] -= 1
                queue.remove(block)
