"""Random sequences, recorded, cut, and replayed: whatever was lost of the beginning, the rest comes out the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.snapshot import allocator_settings
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay import blind, exact
from oomph.units import KIB, MIB
from tests.memory.replay.recorder import Recorder

SETTINGS = {
    "default": AllocatorSettings(),
    "expandable": AllocatorSettings(expandable_segments=True),
    "max split": AllocatorSettings(max_split_size_bytes=32 * MIB),
    "rounded": AllocatorSettings(roundup_power2_divisions=(4,) * 16),
}
SIZES = (
    1,
    512,
    700 * KIB,
    MIB,
    MIB + 512,
    3 * MIB,
    9 * MIB,
    10 * MIB,
    11 * MIB,
    21 * MIB,
    33 * MIB,
    47 * MIB,
)


def play(recorder: Recorder, seed: int, steps: int, *, streams: int, empties: bool, waits: bool) -> None:
    chance = random.Random(seed)
    for _ in range(steps):
        what = chance.random()
        if what < 0.55 or not recorder.live:
            size = chance.choice(SIZES) + chance.choice((0, 0, 4, 5 * KIB, 300 * KIB))
            recorder.malloc(size, chance.randrange(streams))
        elif what < 0.93:
            recorder.free(chance.randrange(len(recorder.live)), at_once=not waits or chance.random() < 0.7)
        elif empties and what < 0.96:
            recorder.empty_cache()
        if recorder.pending and chance.random() < 0.3:
            recorder.complete(chance.randrange(len(recorder.pending)))


@pytest.mark.parametrize("name", SETTINGS)
@given(st.integers(0, 10**6), st.integers(1, 2), st.booleans())
def test_whole_recordings_replay_exactly(name: str, seed: int, streams: int, waits: bool):
    recorder = Recorder(SETTINGS[name])
    play(recorder, seed, 120, streams=streams, empties=True, waits=waits)
    snapshot = recorder.snapshot()
    device = snapshot.devices[0]
    settings = allocator_settings(snapshot)
    result = exact(device.segments, device.timeline, settings)
    assert result.exact, result.misses
    result = blind(device.segments, device.timeline, settings)
    assert result.sequence_right, result.misses
    assert result.peak_right


@pytest.mark.parametrize("name", SETTINGS)
@given(st.integers(0, 10**6), st.sampled_from([60, 90, 150]), st.integers(1, 2))
def test_recordings_of_a_full_device_follow_from_its_capacity(name: str, seed: int, mib: int, streams: int):
    recorder = Recorder(SETTINGS[name], mib * MIB)
    play(recorder, seed, 120, streams=streams, empties=False, waits=False)
    snapshot = recorder.snapshot()
    device = snapshot.devices[0]
    settings = allocator_settings(snapshot)
    for replay in (exact, blind):
        result = replay(device.segments, device.timeline, settings, capacity_bytes=mib * MIB)
        assert result.sequence_right, result.misses
        assert result.retries == recorder.allocator.num_alloc_retries
    result = exact(device.segments, device.timeline, settings, capacity_bytes=mib * MIB)
    # Addresses that were reserved for a request that failed may never be recorded.
    assert result.exact or name == "expandable", result.misses


@pytest.mark.parametrize("name", ["default", "expandable", "rounded"])
@given(st.integers(0, 10**6), st.floats(0, 1), st.integers(1, 2), st.booleans())
def test_recordings_without_their_beginning_replay_exactly(
    name: str, seed: int, kept: float, streams: int, waits: bool
):
    recorder = Recorder(SETTINGS[name])
    play(recorder, seed, 120, streams=streams, empties=True, waits=waits)
    snapshot = recorder.snapshot(int(len(recorder.events) * kept))
    device = snapshot.devices[0]
    result = exact(device.segments, device.timeline, allocator_settings(snapshot))
    assert result.exact or result.unsure, result.misses
