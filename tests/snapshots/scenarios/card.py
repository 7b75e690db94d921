"""A card that a script fills as it likes: the common ground of the scenarios about one failed request."""

from __future__ import annotations

import random
from dataclasses import replace

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.device import Device, Options, OutOfMemory, Tensor
from tests.snapshots.frames import Site
from tests.snapshots.truth import Failed, Truth
from tests.snapshots.written import Made

PARAMETERS = "parameters"
OTHER = "unknown"
_CHUNK = 512 * MIB
#: A driver gives memory in pieces of this; what is left below it is of no use to anyone.
PAGE = 2 * MIB


class Card:
    """A device of `room_bytes` for PyTorch, whose script is written with the methods."""

    def __init__(
        self,
        seed: int,
        room_bytes: int,
        *,
        settings: AllocatorSettings | None = None,
        total_bytes: int | None = None,
        style: str = "all",
        frees: str = "all",
    ) -> None:
        self.chance = random.Random(seed)
        total = total_bytes or room_bytes + self.chance.randrange(300 * MIB, 2 * GIB)
        self.device = Device(
            Options(
                seed=seed,
                style=style,
                frees=frees,
                settings=settings or AllocatorSettings(),
                total_bytes=total,
                outside_bytes=total - room_bytes,
            )
        )

    def room(self) -> int:
        """What the driver would still give."""
        return (
            self.device.options.total_bytes - self.device.outside_bytes - self.device.allocator.reserved_bytes
        )

    def fill(self, left_bytes: int = 0) -> list[Tensor]:
        """Parameters in whole segments until at most `left_bytes`, and less than 20 MiB more, are left."""
        self.device.phase = "load"
        made = []
        # Expandable memory comes in pages of 20 MiB; all that a card holds before this ends with one.
        page = 20 * MIB if self.device.settings.expandable_segments else PAGE
        least = max(page, 10 * MIB)
        while (room := (self.room() - left_bytes) // page * page) >= least:
            size = room if room <= _CHUNK else min(_CHUNK, room - least)
            made.append(self.device.alloc(size // page * page, sites.load(), PARAMETERS))
        return made

    def segments_with_tails(
        self, count: int, site: Site, *, stream: int = 0, pool: tuple[int, int] = (0, 0)
    ) -> list[list[Tensor]]:
        """Segments of 20 MiB, each full: blocks of mixed sizes, and one at the end that is `site`'s."""
        result = []
        for _ in range(count):
            tail = self.chance.randrange(5, 13) * MIB // 2
            rest = 20 * MIB - tail
            first = self.chance.randrange(rest - 9 * MIB, 9 * MIB) // 512 * 512
            made = [
                self.device.alloc(size, sites.block(60), OTHER, stream=stream, pool=pool)
                for size in (first, rest - first)
            ]
            made.append(self.device.alloc(tail, site, OTHER, stream=stream, pool=pool))
            result.append(made)
        return result

    def fails(self, size: int, site: Site, *, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> Failed:
        """A request that must fail."""
        self.device.phase = "forward"
        try:
            self.device.alloc(size, site, OTHER, stream=stream, pool=pool)
        except OutOfMemory as error:
            return error.failed
        raise AssertionError(f"the generator is wrong: {size} bytes were served")

    def made(self, truth: Truth) -> Made:
        return finished(self.device, truth)


def finished(device: Device, truth: Truth, annotations: list[dict[str, object]] | None = None) -> Made:
    """What the snapshot at this moment holds."""
    truth.peak_allocated_bytes = device.allocator.peak_allocated_bytes
    truth.peak_reserved_bytes = device.allocator.peak_reserved_bytes
    truth.retries = list(device.retries)
    truth.step_positions = list(device.step_positions)
    if truth.failed is not None and not truth.categories:
        truth.categories = dict(truth.failed.categories)
    return Made([device], truth, annotations or [])


def expandable(settings: AllocatorSettings) -> AllocatorSettings:
    """The same with expandable segments."""
    return replace(settings, expandable_segments=True)
