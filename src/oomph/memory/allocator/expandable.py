"""Expandable segments: reservations of addresses that are mapped and unmapped in pages.

Source: ExpandableSegment, find_expandable_block, map_block, unmap_block and try_allocate_expandable_block of
c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.1 on).
"""

from __future__ import annotations

from oomph.memory.allocator.arena import SEGMENT_MAP, SEGMENT_UNMAP, Arena
from oomph.memory.allocator.blocks import Block, Pool, Reserved
from oomph.memory.allocator.driver import ADDRESS_RANGE


def allocate(arena: Arena, pool: Pool, stream: int, size: int) -> Block | None:
    """A free block of at least `size` bytes outside the free list, mapped as far as needed; None when full.

    A request may need two mappings, one on each side of a free block. If the second fails the first stays.
    """
    block = _find(pool, stream, size)
    if block is None:
        block = _reserve(arena, pool, stream, size)
    if block is None:
        return None
    if not block.mapped and not _map(arena, block, min(block.size, size)):
        return None
    while block.size < size:
        after = block.next
        assert after is not None
        if not _map(arena, after, min(after.size, size - block.size)):
            return None
        block = after
    pool.remove(block)
    return block


def _find(pool: Pool, stream: int, size: int) -> Block | None:
    """The first run of free and unmapped blocks, by address, with room for `size`."""
    unmapped = pool.unmapped.get(stream)
    if unmapped is not None:
        for block in unmapped.blocks:
            before = block.prev
            start = before if before is not None and before.is_free() else block
            if _has_room(start, size):
                return start
    return None


def _has_room(block: Block, size: int) -> bool:
    room = 0
    here: Block | None = block
    while here is not None and room < size and here.is_free():
        room += here.size
        here = here.next
    return room >= size


def _reserve(arena: Arena, pool: Pool, stream: int, size: int) -> Block | None:
    """A new reservation, of 9/8 of the device; None when the request could not be mapped into it anyway.

    PyTorch sets the addresses aside before it finds that no memory is left, and uses them when there is some. Nothing
    tells when that was; here they are taken at the first mapping, which is the first that a trace shows of them.
    """
    page = arena.page(pool)
    if -(-size // page) * page > arena.room():
        return None
    whole = -(-max(arena.reservation, size) // page) * page
    address = arena.driver.reserve(whole, ADDRESS_RANGE)
    block = Block(address, whole, stream, pool, Reserved(address, whole, page))
    block.mapped = False
    pool.insert_unmapped(block)
    return block


def _map(arena: Arena, block: Block, size: int) -> bool:
    """Maps the first `size` bytes of an unmapped block, rounded up to pages; False when the device is full.

    Pages are created one by one, but a failure gives all of this call back.
    """
    assert block.range is not None
    page = block.range.page
    offset = block.address - block.range.address
    mapped = -(-(offset + size) // page) * page - offset
    if mapped > arena.room():
        return False
    pool = block.pool
    pool.remove_unmapped(block)
    start = block.address
    block.mapped = True
    if mapped < block.size:
        rest = Block(start + mapped, block.size - mapped, block.stream, pool, block.range)
        rest.mapped = False
        rest.insert_between(block, block.next)
        pool.insert_unmapped(rest)
        block.size = mapped
    arena.merge(block, block.prev)
    arena.merge(block, block.next)
    pool.insert(block)
    arena.count_reserved(pool, mapped)
    arena.note(SEGMENT_MAP, start, mapped, block.stream)
    return True


def unmap(arena: Arena, block: Block) -> int:
    """Unmaps the whole pages inside a free block (what sticks out on either side stays free); bytes unmapped."""
    assert block.range is not None
    page = block.range.page
    base = block.range.address
    begin = -(-(block.address - base) // page) * page + base
    end = (block.address + block.size - base) // page * page + base
    if begin >= end:
        return 0
    pool = block.pool
    pool.remove(block)
    if begin > block.address:
        head = Block(block.address, begin - block.address, block.stream, pool, block.range)
        head.insert_between(block.prev, block)
        pool.insert(head)
    if end < block.address + block.size:
        tail = Block(end, block.address + block.size - end, block.stream, pool, block.range)
        tail.insert_between(block, block.next)
        pool.insert(tail)
    block.address = begin
    block.size = size = end - begin
    block.mapped = False
    arena.merge(block, block.prev)
    arena.merge(block, block.next)
    pool.insert_unmapped(block)
    arena.count_released(pool, size)
    arena.note(SEGMENT_UNMAP, begin, size, block.stream)
    return size
