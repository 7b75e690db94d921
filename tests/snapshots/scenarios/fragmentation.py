"""Room enough in the request's own pool, in pieces: which blocks keep them apart is known."""

from __future__ import annotations

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.device import OutOfMemory, Tensor
from tests.snapshots.scenarios.card import OTHER, PAGE, Card
from tests.snapshots.truth import FRAGMENTED, FULL, Failed, Truth
from tests.snapshots.written import Made

#: The user's line whose blocks are the pins: a cache that is appended to.
PIN = sites.script(33)
_LOGITS = sites.head()


def _end(card: Card, failed: Failed, pins: int) -> Made:
    line = PIN.line
    assert line is not None
    assert failed.hole_bytes < failed.request_bytes
    truth = Truth(verdict=FRAGMENTED, failed=failed, pins={line: pins})
    if failed.cached_own_bytes + failed.free_bytes < failed.request_bytes:
        truth.verdict = FULL
    return card.made(truth)


def tails(
    seed: int, style: str = "all", *, part: float = 0.9, settings: AllocatorSettings | None = None
) -> Made:
    """Segments of 20 MiB of which the last block stays. The request is `part` of all holes (above 1: more)."""
    count = 8 + seed * 5 % 30
    card = Card(seed, (2 + seed % 7) * GIB, style=style, settings=settings)
    segments = card.segments_with_tails(count, PIN)
    card.fill()
    for first, second, _ in segments:
        card.device.free(first)
        card.device.free(second)
    holes = sum(20 * MIB - tail.size_bytes for _, _, tail in segments)
    return _end(card, card.fails(int(holes * part), _LOGITS), count)


def heads(seed: int, style: str = "all", settings: AllocatorSettings | None = None) -> Made:
    """Large segments of which a first small piece is used: what a buffer leaves when something small follows it.

    Pages lie between the pieces, so expandable segments would have helped (`heads` with them does not fail).
    """
    card, failed, count = _heads(seed, style, settings)
    assert failed is not None
    return _end(card, failed, count)


def heads_would_fit(seed: int, settings: AllocatorSettings) -> bool:
    """Whether the same script, with other settings on the same device, gets its memory."""
    return _heads(seed, "none", settings)[1] is None


def _heads(seed: int, style: str, settings: AllocatorSettings | None) -> tuple[Card, Failed | None, int]:
    count = 4 + seed % 6
    sizes = [(60 + (seed * 31 + index * 17) % 100) * PAGE for index in range(count)]
    weights = (1 + seed % 3) * GIB
    # Room for a last page of each pool, which expandable segments may not fill.
    card = Card(seed, weights + sum(sizes) + 44 * MIB, style=style, settings=settings)
    card.device.phase = "load"
    for _ in range(weights // (256 * MIB)):
        card.device.alloc(256 * MIB, sites.load(), "parameters")
    rest: list[Tensor] = []
    for size in sizes:
        buffer = card.device.alloc(size, sites.block(45), OTHER)
        card.device.free(buffer)
        pin = card.device.alloc(card.chance.randrange(3, 9) * MIB // 2, PIN, OTHER)
        rest.append(card.device.alloc(size - pin.size_bytes, sites.block(52), OTHER))
    for tensor in rest:
        card.device.free(tensor)
    request = int(sum(sizes) * 0.6)
    try:
        card.device.phase = "forward"
        card.device.alloc(request, _LOGITS, OTHER)
    except OutOfMemory as error:
        return card, error.failed, count
    return card, None, count


def half(seed: int, style: str = "all") -> Made:
    """Holes that look like fragmentation, but all of them are half of what is asked for: full."""
    return tails(seed, style, part=2.0)


def expandable(seed: int, style: str = "all") -> Made:
    """Expandable segments too: every page is pinned, so none can move."""
    return tails(seed, style, settings=sites.EXPANDABLE)
