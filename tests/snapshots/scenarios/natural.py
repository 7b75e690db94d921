"""Jobs that nobody built to fail in a certain way: random shapes and lengths on a card that is somewhat too small."""

from __future__ import annotations

import random

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.device import Device, Options, OutOfMemory
from tests.snapshots.job import OTHER, Job, Spec
from tests.snapshots.scenarios.card import finished
from tests.snapshots.truth import Truth, judged
from tests.snapshots.written import Made

_SETTINGS = (
    AllocatorSettings(),
    AllocatorSettings(),
    sites.EXPANDABLE,
    AllocatorSettings(max_split_size_bytes=64 * MIB),
    AllocatorSettings(roundup_power2_divisions=(4,) * 16),
)


def job(seed: int, style: str = "python") -> Made | None:
    """The job, with the verdict that the sums alone decide (None where they decide none); None if nothing failed."""
    chance = random.Random(seed)
    lengths = [chance.randrange(500, 9000) for _ in range(8)]
    kept = [chance.randrange(100_000, 30 * MIB) for _ in range(8)]

    def keep(one: Job, step: int) -> None:
        one.kept.append(one.device.alloc(kept[step], sites.script(77), OTHER))
        if len(one.kept) > 2:
            one.device.free(one.kept.pop(chance.randrange(len(one.kept))), sites.script(77))

    spec = Spec(
        layers=chance.randrange(2, 5),
        hidden=chance.choice((768, 1024, 1280)),
        vocabulary=chance.choice((0, 0, 12_000)),
        tokens_at=lambda step: lengths[step],
        foreach=chance.random() < 0.5,
        keep=keep,
    )
    settings = chance.choice(_SETTINGS)
    roomy = Device(Options(seed=seed, settings=settings, style="none"))
    state = chance.getstate()
    Job(roomy, spec).run(8)
    chance.setstate(state)
    least, most = roomy.allocator.peak_allocated_bytes, roomy.allocator.peak_reserved_bytes
    room = int(least * 0.8 + (most - least * 0.8) * (seed % 17) / 17)
    device = Device(
        Options(seed=seed, style=style, settings=settings, total_bytes=room + GIB, outside_bytes=GIB)
    )
    made = Job(device, spec)
    try:
        made.run(8)
    except OutOfMemory as error:
        truth = Truth(verdict=judged(error.failed), failed=error.failed)
        return finished(device, truth, made.annotations)
    return None
