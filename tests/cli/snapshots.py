"""Small snapshots, as PyTorch would write them."""

from __future__ import annotations

from typing import Any

from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, block, event, segment, snapshot

FRAMES = [
    {"name": "forward", "filename": "/home/zqalice/gpt/model.py", "line": 12},
    {"name": "train", "filename": "/home/zqalice/gpt/train.py", "line": 40},
]


def job(*, fails: bool = True, blocks: int = 4) -> dict[str, Any]:
    """`blocks` blocks of 32 MiB, each in a segment of its own; then, if it `fails`, a request of 64 MiB with 1 MiB
    free."""
    size = 32 * MIB
    places = [BASE + number * 2 * size for number in range(blocks)]
    events = []
    for number, place in enumerate(places):
        time = 1000 + number * 500_000
        events.append(event("segment_alloc", place, size, time_us=time))
        events.append(event("alloc", place, size, time_us=time + 1, frames=FRAMES))
    if fails:
        events.append(event("oom", 0, 64 * MIB, device_free=MIB, time_us=9_000_000, frames=FRAMES))
    segments = [
        segment(place, [block(place, size, frames=FRAMES)], segment_type="large", allocated_size=size)
        for place in places
    ]
    return snapshot(segments, [events])
