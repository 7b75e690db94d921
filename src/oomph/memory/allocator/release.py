"""Giving memory back to the driver: everything that is free, one big block, or what is old.

Source: release_cached_blocks, release_blocks, release_available_cached_blocks and garbage_collect_cached_blocks of
c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from oomph.memory.allocator import expandable, sizes
from oomph.memory.allocator.arena import Arena
from oomph.memory.allocator.blocks import Block, Pool


def release_pool(arena: Arena, pool: Pool) -> None:
    """Every segment of which no byte is in use, in the pool's order; then the free pages of expandable ones."""
    expanding: list[Block] = []
    for block in pool.in_order():
        if block.range is not None:
            expanding.append(block)
        elif block.prev is None and block.next is None:
            arena.release_segment(block)
    for block in expanding:
        expandable.unmap(arena, block)
        if block.prev is None and block.next is None and not block.mapped:
            pool.remove_unmapped(block)


def release_available(arena: Arena, pool: Pool, stream: int, rounded: int) -> bool:
    """With `max_split_size_mb`: frees the best fitting oversize block, or oversize ones from the largest down.

    True when as much was freed as the request needs (at least `max_split_size_mb`). An oversize block is a whole
    segment, unless it is from before the setting (a simulation that was seeded); then it cannot be given back.
    """
    if arena.max_split == sizes.UNLIMITED_BYTES:
        return False
    needed = max(rounded, arena.max_split)
    free = pool.free.get(stream)
    if free is None:
        return False
    place = free.first_at_least(needed)
    fit = place
    while fit < len(free.blocks) and free.blocks[fit].range is None:
        if not free.blocks[fit].is_split():
            arena.release_segment(free.blocks[fit])
            return True
        fit += 1
    released = 0
    for block in reversed(free.blocks[:place]):
        if released >= needed or block.size < arena.max_split:
            break
        if block.range is None and not block.is_split():
            released += block.size
            arena.release_segment(block)
    return released >= needed


def collect_garbage(arena: Arena) -> None:
    """With a limit and `garbage_collection_threshold`: frees large segments that were unused for long.

    Starts above threshold * limit. Frees every segment at least as old as the mean, then again with the rest, until
    enough is free or nothing more goes. Age counts searches of the large pool since the block was last put there.
    """
    threshold = int(arena.gc_threshold * arena.limit)
    if arena.reserved <= threshold:
        return
    target = arena.reserved - threshold
    pool = arena.large
    left = [block for block in pool.in_order() if not block.is_split() and block.range is None]
    total_age = float(sum([pool.searches - block.born for block in left]))
    reclaimed = 0
    while left and reclaimed < target:
        mean = total_age / len(left)
        kept: list[Block] = []
        for block in left:
            age = pool.searches - block.born
            if age < mean:
                kept.append(block)
                continue
            reclaimed += block.size
            total_age -= age
            arena.release_segment(block)
        if len(kept) == len(left):
            break
        left = kept
