"""A full card: what was alive left no room for the request, however it lay. Many ways to look otherwise."""

from __future__ import annotations

from collections.abc import Callable

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.device import Device, Options, OutOfMemory
from tests.snapshots.job import Job, Spec
from tests.snapshots.scenarios.card import OTHER, PAGE, Card, finished
from tests.snapshots.truth import FULL, Truth
from tests.snapshots.written import Made

_LOGITS = sites.head()


def _card(seed: int, style: str, settings: AllocatorSettings | None = None, odd: int = 300) -> Card:
    """A card of 4 to 24 GiB, in pages of the driver and a few bytes."""
    gib = 4 + seed * 7 % 21
    return Card(seed, gib * GIB + seed * 13 % 64 * PAGE + odd, style=style, settings=settings)


def _request(card: Card) -> int:
    """More than all that is free, cached or not: then no layout could have served it."""
    free = card.room() + card.device.allocator.reserved_bytes - card.device.allocator.active_bytes
    return free + card.chance.choice((512, 4096, 3 * MIB, 300 * MIB, 2 * GIB))


def _end(card: Card, size: int) -> Made:
    failed = card.fails(size, _LOGITS)
    assert failed.cached_bytes + failed.free_bytes < failed.request_bytes
    return card.made(Truth(verdict=FULL, failed=failed))


def packed(seed: int, style: str = "all") -> Made:
    """Parameters alone, without a hole."""
    card = _card(seed, style)
    card.fill(card.chance.choice((0, 100 * MIB, GIB)))
    return _end(card, _request(card))


def cached(seed: int, style: str = "all", settings: AllocatorSettings | None = None) -> Made:
    """Much is cached in pieces; all of it together is still less than the request."""
    card = _card(seed, style, settings)
    segments = card.segments_with_tails(card.chance.randrange(4, 40), sites.script(33))
    card.fill(card.chance.choice((0, 60 * MIB, 500 * MIB)))
    for first, second, _ in segments:
        card.device.free(first)
        if card.chance.random() < 0.7:
            card.device.free(second)
    return _end(card, _request(card))


def expandable(seed: int, style: str = "all") -> Made:
    """The same with expandable segments."""
    return cached(seed, style, sites.EXPANDABLE)


def whole_segments_cached(seed: int, style: str = "all") -> Made:
    """Whole segments are free too; PyTorch gives them back and still has too little."""
    card = _card(seed, style)
    buffers = [
        card.device.alloc(card.chance.randrange(10, 90) * PAGE, sites.block(52), OTHER)
        for _ in range(card.chance.randrange(2, 12))
    ]
    card.fill()
    for buffer in buffers:
        card.device.free(buffer)
    return _end(card, _request(card))


def small_request(seed: int, style: str = "all") -> Made:
    """The last KiB: small pool and device are full to the byte."""
    card = _card(seed, style, odd=0)
    for _ in range(card.chance.randrange(1, 5)):
        for _ in range(2):
            card.device.alloc(MIB, sites.block(60), OTHER)
    card.fill()
    while card.room() >= PAGE:
        for _ in range(2):
            card.device.alloc(MIB, sites.block(60), OTHER)
    return _end(card, card.chance.choice((4, 512, 100_000, MIB)))


def other_stream_has_too_little(seed: int, style: str = "all") -> Made:
    """A side stream has holes, and the request's stream has; together they are too small."""
    card = _card(seed, style)
    segments = card.segments_with_tails(5, sites.script(33))
    segments += card.segments_with_tails(7, sites.script(34), stream=0x5A0)
    card.fill()
    for first, second, _ in segments:
        card.device.free(first)
        card.device.free(second)
    return _end(card, _request(card))


def graph_pool_has_too_little(seed: int, style: str = "all") -> Made:
    """A CUDA graph's pool has free memory; with all the rest it is too little."""
    card = _card(seed, style)
    pool = (1, 0)
    card.device.allocator.create_pool(pool)
    buffer = card.device.alloc(card.chance.randrange(20, 80) * PAGE, sites.block(45), OTHER, pool=pool)
    segments = card.segments_with_tails(4, sites.script(33))
    card.fill()
    card.device.free(buffer)
    for first, _, _ in segments:
        card.device.free(first)
    return _end(card, _request(card))


def capped_and_full(seed: int, style: str = "all") -> Made:
    """A cap is set, but the device itself had no room either."""
    card = _card(seed, style)
    card.fill(20 * MIB)
    card.device.allocator.set_limit(card.device.allocator.reserved_bytes + 6 * MIB)
    return _end(card, _request(card))


def batch_too_large(seed: int, style: str = "all") -> Made:
    """A training job that does not fit, dying wherever its first steps need most."""
    spec = Spec(
        layers=2 + seed % 4, hidden=2048, tokens=4096 * (1 + seed % 5), vocabulary=(0, 32_000)[seed % 2]
    )
    settings = sites.EXPANDABLE if seed % 3 == 0 else AllocatorSettings()
    roomy = Device(Options(seed=seed))
    Job(roomy, spec).run(2)
    first = 55 + seed * 37 % 40
    for percent in (*range(first, 20, -1), *range(100, first, -1)):
        room = roomy.allocator.peak_allocated_bytes * percent // 100
        device = Device(
            Options(seed=seed, style=style, settings=settings, total_bytes=room + GIB, outside_bytes=GIB)
        )
        job = Job(device, spec)
        try:
            job.run(2)
        except OutOfMemory as error:
            failed = error.failed
            if failed.short_by_bytes and failed.step is not None:
                return finished(device, Truth(verdict=FULL, failed=failed), job.annotations)
    raise AssertionError("the generator is wrong: the job never dies of a full card")


#: All the ways, by name.
WAYS: dict[str, Callable[[int, str], Made]] = {
    each.__name__: each
    for each in (
        packed,
        cached,
        expandable,
        whole_segments_cached,
        small_request,
        other_stream_has_too_little,
        graph_pool_has_too_little,
        capped_and_full,
        batch_too_large,
    )
}
