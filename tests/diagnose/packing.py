"""A small model of PyTorch's caching allocator.

Rules (c10/cuda/CUDACachingAllocator.cpp, default settings, one stream): requests are rounded up to 512 bytes; up to
1 MiB they are cut from segments of 2 MiB, below 10 MiB from segments of 20 MiB, larger ones get a segment of their own,
rounded up to 2 MiB. The smallest free block that fits is taken, of equals the one at the lowest address. The rest is
split off when it is at least 512 bytes (small pool) or more than 1 MiB (large pool). Freed blocks merge with free
neighbours of their segment. When the device has no room for a segment, all segments that are entirely free go back
first; only then does the request fail.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

KIB, MIB, GIB = 1024, 1024**2, 1024**3
SMALL = MIB


def rounded(size: int) -> int:
    return max(512, -(-size // 512) * 512)


def segment_size(size: int) -> int:
    if size <= SMALL:
        return 2 * MIB
    if size < 10 * MIB:
        return 20 * MIB
    return -(-size // (2 * MIB)) * (2 * MIB)


@dataclass(eq=False)
class Block:
    address: int
    size: int
    free: bool = False
    before: Block | None = None
    after: Block | None = None


@dataclass(frozen=True)
class Refusal:
    """What the message would print: a request that failed, after everything that could go back had gone back."""

    request: int
    segment: int
    allocated: int
    reserved: int
    capacity: int

    @property
    def cached(self) -> int:
        return self.reserved - self.allocated

    @property
    def free(self) -> int:
        return self.capacity - self.reserved

    @property
    def ratio(self) -> float:
        return self.cached / self.reserved if self.reserved else 0.0

    @property
    def would_fit_packed(self) -> bool:
        """True when an allocator without any gaps would have served the request."""
        return self.allocated + self.request <= self.capacity


class Allocator:
    """`malloc` gives a block or a Refusal; `free` gives it back."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.reserved = 0
        self.allocated = 0
        self.peak = 0
        self._next = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, Block] = {}

    def malloc(self, size: int) -> Block | Refusal:
        request = rounded(size)
        small = request <= SMALL
        block = self._take(small, request) or self._grow(small, request)
        if block is None:
            self._release()
            block = self._grow(small, request)
        if block is None:
            return Refusal(request, segment_size(request), self.allocated, self.reserved, self.capacity)
        rest = block.size - request
        if rest >= 512 if small else rest > MIB:
            tail = Block(block.address + request, rest, before=block, after=block.after)
            if block.after is not None:
                block.after.before = tail
            block.after, block.size = tail, request
            self._put(small, tail)
        self.allocated += block.size
        self.peak = max(self.peak, self.allocated)
        return block

    def free(self, block: Block) -> None:
        small = block.size <= SMALL and self._small(block)
        self.allocated -= block.size
        for other, first in ((block.before, True), (block.after, False)):
            if other is not None and other.free:
                self._drop(small, other)
                block = self._join(other, block) if first else self._join(block, other)
        self._put(small, block)

    def _small(self, block: Block) -> bool:
        """A segment of the small pool is 2 MiB in all; the large pool has none of that size with a block this small."""
        first = block
        while first.before is not None:
            first = first.before
        total = 0
        at: Block | None = first
        while at is not None:
            total += at.size
            at = at.after
        return total == 2 * MIB

    def _take(self, small: bool, request: int) -> Block | None:
        pool = self._free[small]
        index = bisect_left(pool, (request, -1))
        if index == len(pool):
            return None
        block = self._at.pop(pool.pop(index)[1])
        block.free = False
        return block

    def _put(self, small: bool, block: Block) -> None:
        block.free = True
        insort(self._free[small], (block.size, block.address))
        self._at[block.address] = block

    def _drop(self, small: bool, block: Block) -> None:
        pool = self._free[small]
        del pool[bisect_left(pool, (block.size, block.address))]
        del self._at[block.address]

    @staticmethod
    def _join(left: Block, right: Block) -> Block:
        left.size += right.size
        left.after = right.after
        if right.after is not None:
            right.after.before = left
        return left

    def _grow(self, small: bool, request: int) -> Block | None:
        size = segment_size(request)
        if self.reserved + size > self.capacity:
            return None
        self.reserved += size
        self._next += size + 2 * MIB
        return Block(self._next - size, size)

    def _release(self) -> None:
        for pool in self._free.values():
            for size, address in list(pool):
                block = self._at[address]
                if block.before is None and block.after is None:
                    pool.remove((size, address))
                    del self._at[address]
                    self.reserved -= size
