"""What if: the same script really run with other settings, against what oomph says from the recording of the first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oomph.diagnose.snapshot.model import Trial
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.answers import answer
from tests.snapshots.scenarios import fragmentation, growth
from tests.snapshots.written import Made

SETTINGS = {
    "expandable_segments:True": sites.EXPANDABLE,
    "max_split_size_mb:64": AllocatorSettings(max_split_size_bytes=64 * MIB),
    "roundup_power2_divisions:4": AllocatorSettings(roundup_power2_divisions=(4,) * 16),
}
RUNS = (growth.steady, growth.varying_lengths, growth.keeps_two, growth.evaluates)


def trial(made: Made, setting: str, capacity_bytes: int | None = None) -> Trial:
    trials = answer(made, capacity_bytes=capacity_bytes, what_if=[setting]).devices[0].what_if
    assert trials is not None
    return trials.trials[-1]


def requests_before(made: Made, position: int) -> int:
    return sum(event["action"] == "alloc" for event in made.device.events[:position])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("run", RUNS)
def test_peaks_under_other_settings(run: Callable[..., growth.Run], setting: str):
    for seed in range(2):
        recorded = run(seed, "none").roomy()
        really = run(seed, "none")
        really.settings = SETTINGS[setting]
        again = really.roomy().device.allocator
        told = trial(recorded, setting)
        assert told.setting == setting
        assert told.peak_reserved_bytes == again.peak_reserved_bytes
        assert told.peak_allocated_bytes == again.peak_allocated_bytes
        assert told.fails_at is None


@pytest.mark.parametrize("share", [0.6, 0.9, 1.0])
@pytest.mark.parametrize("run", RUNS)
def test_where_a_smaller_device_fails(run: Callable[..., growth.Run], share: float):
    """As many requests are served as the script really gets on such a device."""
    for seed in range(2):
        recorded = run(seed, "none").roomy()
        capacity_mib = int(recorded.device.allocator.peak_reserved_bytes * share) // MIB
        told = trial(recorded, f"capacity:{capacity_mib}MiB")
        again, error = run(seed, "none").on(capacity_mib * MIB)
        if error is None:
            assert told.fails_at is None
        else:
            assert told.fails_at is not None
            served = requests_before(again, error.failed.position)
            assert requests_before(recorded, told.fails_at) == served


@pytest.mark.parametrize("seed", range(6))
def test_fragmentation_under_expandable_segments(seed: int):
    """Where pages can move they cure it, and where every page is pinned they do not."""
    movable = trial(fragmentation.heads(seed, "none"), "expandable_segments:True")
    assert (movable.fails_at is None) == fragmentation.heads_would_fit(seed, sites.EXPANDABLE)
    pinned = fragmentation.expandable(seed, "none")
    fixed = answer(pinned, what_if=["expandable_segments:False"]).devices[0].what_if
    assert fixed is not None
    assert pinned.truth.failed is not None
    assert fixed.trials[0].fails_at == pinned.truth.failed.position


@pytest.mark.parametrize("seed", range(3))
def test_a_full_card_is_not_cured_by_any_setting(seed: int):
    made = fragmentation.tails(seed, "none", part=3.0)
    told = answer(made, what_if=["all"]).devices[0].what_if
    assert told is not None
    failed = made.truth.failed
    assert failed is not None
    assert told.capacity_bytes == failed.available_bytes < 80 * GIB
    assert told.worth_trying is None, told.says
    assert all(one.fails_at is not None for one in told.trials)
