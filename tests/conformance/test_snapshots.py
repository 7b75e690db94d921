"""What must hold on real snapshots: ../shared/snapshots beside the repository, or below OOMPH_CONFORMANCE."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oomph.evidence.snapshot import allocator_settings, read
from oomph.memory.replay import blind, exact
from oomph.memory.timeline import Kind
from tests.conformance.snapshots import Tally, judge

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "snapshots"
_NAMED = os.environ.get("OOMPH_CONFORMANCE")


def _folder() -> Path | None:
    """The folder of snapshots: in the parent of a corpus that was named, or beside the repository."""
    if _NAMED:
        for folder in (Path(_NAMED) / "snapshots", Path(_NAMED).parent / "snapshots"):
            if folder.is_dir():
                return folder
        return None
    return _BESIDE if _BESIDE.is_dir() else None


FOLDER = _folder()
_ABSENT = (
    "no real snapshots here: put a folder at ../shared/snapshots, or name its parent in OOMPH_CONFORMANCE"
)
OOM = "three-gpus-expandable-oom.pickle"
RETRY = "octree-inference-retries.pickle"

if FOLDER is None:

    @pytest.mark.skip(reason=_ABSENT)
    def test_real_snapshots():
        raise AssertionError(_ABSENT)

else:

    @pytest.fixture(scope="module")
    def tally() -> Tally:
        assert FOLDER is not None
        return judge(FOLDER)

    def test_every_trace_replays_exactly(tally: Tally):
        assert tally.misses == []
        assert tally.crashes == 0
        assert tally.addresses_right == tally.addresses_total > 0
        assert tally.segment_events_right == tally.segment_events_total > 0
        assert tally.final_layout_right == tally.final_layout_total == tally.traces
        assert tally.peak_reserved_right == tally.traces

    def test_every_trace_replays_blind(tally: Tally):
        assert tally.blind_sequence_right == tally.blind_peak_right == tally.traces

    @pytest.mark.skipif(not (FOLDER / OOM).is_file(), reason=f"the folder has no {OOM}")
    @pytest.mark.parametrize("capacity", [84_208_000_000, 84_250_000_000, 84_298_432_512, 84_319_000_000])
    def test_a_real_oom_follows_from_a_capacity_alone(capacity):
        # allocator.md 2.12: 46 maps and unmaps, 6 of them unmaps, a retry that helped, then the OOM.
        assert FOLDER is not None
        snapshot = read(FOLDER / OOM)
        device = snapshot.devices[1]
        assert capacity >= 84_202_749_952  # what was reserved in the end
        for replay in (exact, blind):
            result = replay(
                device.segments, device.timeline, allocator_settings(snapshot), capacity_bytes=capacity
            )
            assert result.sequence_right
            assert [kind for kind, _ in result.events].count(Kind.SEGMENT_UNMAP) == 6
            assert len(result.events) == 47
            assert result.events[-1] == (Kind.OOM, 5_308_694_528)
            assert result.ooms == device.timeline.positions(Kind.OOM).tolist()

    @pytest.mark.skipif(not (FOLDER / RETRY).is_file(), reason=f"the folder has no {RETRY}")
    @pytest.mark.parametrize("gib", [22.7, 23.5, 25.0])
    def test_a_real_retry_follows_from_a_capacity_alone(gib):
        # allocator.md 2.12: 17 segments freed, then the request succeeded, at any of these capacities.
        assert FOLDER is not None
        snapshot = read(FOLDER / RETRY)
        device = snapshot.devices[0]
        settings = allocator_settings(snapshot)
        result = blind(device.segments, device.timeline, settings, capacity_bytes=int(gib * 2**30))
        assert result.sequence_right
        assert result.retries == 1
        assert [kind for kind, _ in result.events].count(Kind.SEGMENT_FREE) == 17
        assert result.ooms == []

    @pytest.mark.skipif(not (FOLDER / RETRY).is_file(), reason=f"the folder has no {RETRY}")
    def test_a_capacity_below_the_recorded_peak_fails(tally: Tally):
        assert FOLDER is not None
        snapshot = read(FOLDER / RETRY)
        device = snapshot.devices[0]
        settings = allocator_settings(snapshot)
        result = blind(device.segments, device.timeline, settings, capacity_bytes=int(22.5 * 2**30))
        assert result.ooms
