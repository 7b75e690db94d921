"""Snapshots whose types are right and whose events make no sense: counted as differences, never an exception."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.snapshot import allocator_settings
from oomph.memory.replay import blind, exact
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, read, segment, snapshot

ACTIONS = (
    *("alloc", "free_requested", "free_completed") * 2,
    *("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "snapshot"),
)
SIZES = (0, 1, 512, MIB, 2 * MIB, 3 * MIB, 20 * MIB, 21 * MIB, 40 * MIB, 1 << 50)
STATES = ("active_allocated", "active_pending_free", "inactive")


def segments(chance: random.Random) -> list[dict]:
    result = []
    here = BASE
    for _ in range(chance.randrange(4)):
        here += chance.choice((0, 2 * MIB, 20 * MIB))
        small = chance.random() < 0.5
        blocks = []
        for _ in range(chance.randint(1, 3)):
            size = chance.choice((512, MIB, 2 * MIB) if small else (2 * MIB, 20 * MIB))
            blocks.append(block(here, size, chance.choice(STATES)))
            here += size
        result.append(
            segment(
                blocks[0]["address"],
                blocks,
                segment_type="small" if small else "large",
                is_expandable=chance.random() < 0.5,
                stream=chance.randrange(2),
                segment_pool_id=(0, chance.randrange(2)),
            )
        )
    return result


@pytest.mark.parametrize("expandable", [False, True])
@given(st.integers(0, 10**9))
def test_nothing_raises(expandable: bool, seed: int):
    chance = random.Random(seed)
    places = [BASE + step * MIB for step in (0, 1, 2, 3, 20, 22, 40, 60)] + [0, 512, BASE + 512]
    events = [
        event(
            chance.choice(ACTIONS),
            chance.choice(places),
            chance.choice(SIZES),
            stream=chance.randrange(2),
            **({"pool_id": (0, chance.randrange(2))} if chance.random() < 0.2 else {}),
        )
        for _ in range(chance.randrange(40))
    ]
    conf = SETTINGS | {"expandable_segments": expandable}
    content = read(snapshot(segments(chance), [events], allocator_settings=conf))
    settings = allocator_settings(content)
    for device in content.devices:
        for replay in (exact, blind):
            for capacity in (None, 30 * MIB):
                result = replay(device.segments, device.timeline, settings, capacity_bytes=capacity)
                assert result.events_total == len(events) or device.index != 0
