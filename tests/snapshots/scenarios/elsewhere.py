"""Room that the request may not use: under a cap, in other pools and streams, or gone outside."""

from __future__ import annotations

from dataclasses import replace

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.scenarios.card import OTHER, PAGE, Card
from tests.snapshots.truth import CAPPED, FULL, OTHER_POOL, OUTSIDE_GREW, Truth
from tests.snapshots.written import Made

_LOGITS = sites.head()
SIDE_STREAM = 0x55D0_A1B0


def capped(seed: int, style: str = "all", settings: AllocatorSettings | None = None) -> Made:
    """`set_per_process_memory_fraction`: the device has more room than the request needs."""
    total = (8 + seed % 30) * GIB
    fraction = (0.3, 0.5, 0.62, 0.8)[seed % 4]
    settings = replace(settings or AllocatorSettings(), fraction=fraction)
    card = Card(seed, total - 600 * MIB, total_bytes=total, style=style, settings=settings)
    cap = int(total * fraction)
    # The outside keeps 600 MiB, and at least a fifth of the card is above the cap.
    card.device.phase = "load"
    segments = card.segments_with_tails(seed % 3 * 4, sites.script(33))
    while cap - card.device.allocator.reserved_bytes >= 400 * MIB:
        card.device.alloc(300 * MIB, sites.load(), "parameters")
    for first, _, _ in segments:
        card.device.free(first)
    failed = card.fails(500 * MIB, _LOGITS)
    assert failed.free_bytes >= failed.segment_bytes
    return card.made(Truth(verdict=CAPPED, failed=failed, cap_bytes=cap))


def side_stream(seed: int, style: str = "all") -> Made:
    """A side stream's segment has the memory; another block keeps it from being given back."""
    card = Card(seed, (3 + seed % 9) * GIB, style=style)
    size = (150 + seed * 11 % 300) * PAGE
    buffer = card.device.alloc(size, sites.block(72), OTHER, stream=SIDE_STREAM)
    card.device.free(buffer)
    card.device.alloc(3 * MIB, sites.script(34), OTHER, stream=SIDE_STREAM)
    card.fill()
    failed = card.fails(size // 2, _LOGITS)
    assert max(failed.other_holes) >= failed.request_bytes > failed.cached_own_bytes + failed.free_bytes
    return card.made(Truth(verdict=OTHER_POOL, failed=failed))


def graph_pool(seed: int, style: str = "all") -> Made:
    """CUDA graphs' private pools have it: their segments are free between replays, and stay."""
    card = Card(seed, (3 + seed % 9) * GIB, style=style)
    sizes = [(100 + (seed * 11 + i * 37) % 200) * PAGE for i in range(3)]
    for number, size in enumerate(sizes):
        pool = (number + 1, 0)
        card.device.allocator.create_pool(pool)
        output = card.device.alloc(12 * MIB, sites.block(86), OTHER, pool=pool)
        assert output.pool == pool
        scratch = card.device.alloc(size, sites.block(87), OTHER, pool=pool)
        card.device.free(scratch)
    card.fill()
    failed = card.fails(max(sizes) - 4 * PAGE, _LOGITS)
    assert max(failed.other_holes) >= failed.request_bytes > failed.cached_own_bytes + failed.free_bytes
    return card.made(
        Truth(verdict=OTHER_POOL, failed=failed, private_bytes=sum(sizes) + len(sizes) * 12 * MIB)
    )


def during_capture(seed: int, style: str = "all") -> Made:
    """A CUDA graph's capture may not give back what is cached, whole segments though they are."""
    card = Card(seed, (3 + seed % 9) * GIB, style=style)
    allocator, pool = card.device.allocator, (1, 0)
    size = (200 + seed * 11 % 300) * PAGE
    buffer = card.device.alloc(size, sites.block(45), OTHER)
    card.fill()
    card.device.free(buffer)
    allocator.begin_pool(pool)
    failed = card.fails(size - 8 * MIB, sites.block(87), pool=pool)
    allocator.end_pool(pool)
    assert max(failed.other_holes) >= failed.request_bytes > failed.cached_own_bytes + failed.free_bytes
    return card.made(Truth(verdict=OTHER_POOL, failed=failed))


def large_pool(seed: int, style: str = "all") -> Made:
    """A small request, while the large pool has holes that small blocks never use."""
    card = Card(seed, (2 + seed % 5) * GIB + 512 * (seed % 3), style=style)
    segments = card.segments_with_tails(4 + seed % 5, sites.script(33))
    for _ in range(2):
        card.device.alloc(MIB, sites.block(60), OTHER)
    card.fill()
    while card.room() >= PAGE:
        for _ in range(2):
            card.device.alloc(MIB, sites.block(60), OTHER)
    for first, _, _ in segments:
        card.device.free(first)
    failed = card.fails(MIB - 100 * seed % 2048, sites.block(40))
    assert failed.small
    return card.made(Truth(verdict=OTHER_POOL, failed=failed))


def outside_grew(seed: int, style: str = "all", *, enough: bool = True) -> Made:
    """PyTorch had nearly all of the card, gave it back, and then something else took a part of it.

    With `enough`, the request would have fitted if that had not happened; else the card is full either way.
    """
    room = (4 + seed % 12) * GIB
    card = Card(seed, room, style=style)
    device = card.device
    device.phase = "load"
    device.alloc(GIB, sites.load(), "parameters")
    caches = [device.alloc((room - GIB) // 4 // PAGE * PAGE, sites.block(45), OTHER) for _ in range(4)]
    peak = device.allocator.reserved_bytes
    for tensor in caches:
        device.free(tensor)
    device.empty_cache(sites.empty_cache())
    growth = (300 + seed * 53 % 900) * PAGE
    device.outside(device.outside_bytes + growth)
    size = (peak - GIB) // PAGE * PAGE if enough else room
    failed = card.fails(size, _LOGITS)
    truth = Truth(verdict=OUTSIDE_GREW if enough else FULL, failed=failed)
    truth.outside_growth_bytes = peak - failed.available_bytes
    return card.made(truth)


def outside_grew_between_failures(seed: int, style: str = "all") -> Made:
    """Two requests failed; at the second the device had less for PyTorch, by exactly the growth."""
    room = (4 + seed % 12) * GIB
    card = Card(seed, room, style=style)
    device = card.device
    device.phase = "load"
    device.alloc(2 * GIB, sites.load(), "parameters")
    card.fails(room, sites.script(53))
    growth = (200 + seed * 53 % 700) * PAGE
    kept = device.alloc(64 * MIB, sites.block(45), OTHER)
    device.free(kept)
    device.outside(device.outside_bytes + growth)
    failed = card.fails(room - 2 * GIB - growth // 2, _LOGITS)
    return card.made(Truth(verdict=OUTSIDE_GREW, failed=failed, outside_growth_bytes=growth))
