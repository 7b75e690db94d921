"""From plain segments to the state of a simulation, and back."""

from __future__ import annotations

from oomph.memory.allocator import sizes
from oomph.memory.allocator.arena import DEFAULT_POOL, Arena
from oomph.memory.allocator.blocks import Block, Pool, PrivatePool, Reserved
from oomph.memory.allocator.layout import (
    ALLOCATED,
    INACTIVE,
    PENDING_FREE,
    BlockState,
    Reservation,
    SegmentState,
)


def plant(arena: Arena, segments: list[SegmentState], reservations: list[Reservation]) -> None:
    """Builds blocks and counters for `segments`. `reservations` that hold no segment are kept for growing."""
    ranges: list[tuple[Reservation, list[SegmentState]]] = [(known, []) for known in reservations]
    for segment in sorted(segments, key=lambda one: one.address):
        if segment.expandable:
            _into_range(arena, segment, ranges)
            continue
        pool = pool_of(arena, segment.pool, segment.small)
        _link(_blocks(arena, segment, pool, None))
        _count_segment(arena, pool, segment.size, True)
    for known, members in ranges:
        _plant_range(arena, known, members)
    for block in arena.active.values():
        _count_active(arena, block)
    for part in (arena.small, arena.large):
        _count_splits(arena, part)
    for private in arena.private.values():
        _count_splits(arena, private.small)
        _count_splits(arena, private.large)


def pool_of(arena: Arena, name: tuple[int, int], small: bool) -> Pool:
    """The half of the pool of that name, which is made when it is new."""
    if name == DEFAULT_POOL:
        return arena.small if small else arena.large
    private = arena.private.get(name)
    if private is None:
        private = PrivatePool(name)
        arena.private[name] = private
    return private.small if small else private.large


def _into_range(
    arena: Arena, segment: SegmentState, ranges: list[tuple[Reservation, list[SegmentState]]]
) -> None:
    for known, members in ranges:
        same = (known.stream, known.pool, known.small) == (segment.stream, segment.pool, segment.small)
        if same and known.address <= segment.address < known.address + known.size:
            members.append(segment)
            return
    page = sizes.SMALL_SEGMENT_BYTES if segment.small else arena.large_segment
    size = sizes.ceil_to(arena.reservation, page)
    known = Reservation(segment.address, size, segment.stream, segment.pool, segment.small)
    ranges.append((known, [segment]))


def _plant_range(arena: Arena, known: Reservation, members: list[SegmentState]) -> None:
    """The mapped parts of one reservation, with unmapped blocks between and behind them."""
    pool = pool_of(arena, known.pool, known.small)
    page = sizes.SMALL_SEGMENT_BYTES if known.small else arena.large_segment
    range_ = Reserved(known.address, known.size, page)
    chain: list[Block] = []
    here = known.address
    for segment in members:
        if segment.address > here:
            chain.append(_unmapped(here, segment.address - here, known.stream, pool, range_))
        chain.extend(_blocks(arena, segment, pool, range_))
        _count_segment(arena, pool, segment.size, False)
        here = segment.address + segment.size
    if here < known.address + known.size:
        chain.append(_unmapped(here, known.address + known.size - here, known.stream, pool, range_))
    _link(chain)


def _unmapped(address: int, size: int, stream: int, pool: Pool, range_: Reserved) -> Block:
    block = Block(address, size, stream, pool, range_)
    block.mapped = False
    pool.insert_unmapped(block)
    return block


def _blocks(arena: Arena, segment: SegmentState, pool: Pool, range_: Reserved | None) -> list[Block]:
    """The segment's blocks; free neighbours become one, as the allocator never leaves two."""
    result: list[Block] = []
    free: Block | None = None
    for state in segment.blocks:
        if state.state == INACTIVE and free is not None:
            free.size += state.size
            continue
        block = Block(state.address, state.size, segment.stream, pool, range_)
        result.append(block)
        free = block if state.state == INACTIVE else None
        if free is None:
            block.requested = state.requested
            block.allocated = state.state == ALLOCATED
            block.events = 0 if block.allocated else 1
            arena.active[block.address] = block
    for block in result:
        if not block.allocated and block.events == 0:
            pool.insert(block)
    return result


def _link(chain: list[Block]) -> None:
    before: Block | None = None
    for block in chain:
        block.prev = before
        if before is not None:
            before.next = block
        before = block


def _count_segment(arena: Arena, pool: Pool, size: int, fixed: bool) -> None:
    arena.count_reserved(pool, size)
    arena.counts.device_allocs = 0
    if fixed:
        arena.counts.all.segment.add(1)
        arena.half(pool).segment.add(1)
    if fixed and size >= arena.max_split:
        arena.counts.oversize_segments.add(1)


def _count_active(arena: Arena, block: Block) -> None:
    for part in (arena.counts.all, arena.half(block.pool)):
        part.block_taken(block.size, block.requested)
        if not block.allocated:
            part.block_returned(block.size)
    if block.allocated and block.size >= arena.max_split:
        arena.counts.oversize_allocations.add(1)


def _count_splits(arena: Arena, pool: Pool) -> None:
    for block in pool.in_order():
        if block.range is None and block.is_split():
            arena.counts.all.split_changed(1, block.size)
            arena.half(pool).split_changed(1, block.size)


def describe(arena: Arena) -> list[SegmentState]:
    """Segments in address order with their blocks."""
    seen: list[Block] = list(arena.active.values())
    pools = [arena.small, arena.large]
    for private in arena.private.values():
        pools += [private.small, private.large]
    for pool in pools:
        seen += pool.in_order()
    seen.sort(key=lambda block: block.address)
    result: list[SegmentState] = []
    before: Block | None = None
    for block in seen:
        if before is None or block.prev is not before:
            name = DEFAULT_POOL if block.pool.owner is None else block.pool.owner.identity
            expandable = block.range is not None
            result.append(
                SegmentState(block.address, 0, block.stream, name, block.pool.small, expandable, [])
            )
        segment = result[-1]
        segment.size += block.size
        segment.blocks.append(_state(block))
        before = block
    return result


def _state(block: Block) -> BlockState:
    if block.allocated:
        return BlockState(block.address, block.size, block.requested, ALLOCATED)
    if block.events > 0 or block.uses is not None:
        return BlockState(block.address, block.size, block.requested, PENDING_FREE)
    return BlockState(block.address, block.size, 0, INACTIVE)
