"""Replays notice what differs, and find the capacity that a full device had."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from oomph.evidence.snapshot import DeviceSnapshot, allocator_settings
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay import blind, exact
from oomph.memory.replay.pressure import capacities
from oomph.memory.timeline import Kind
from oomph.units import MIB
from tests.conformance.__main__ import main
from tests.evidence.snapshot.build import event, read, segment, snapshot
from tests.memory.replay.recorder import Recorder


def recorded(recorder: Recorder, last: int | None = None) -> tuple[DeviceSnapshot, AllocatorSettings]:
    content = recorder.snapshot(last)
    return content.devices[0], allocator_settings(content)


@pytest.fixture
def simple() -> Recorder:
    """30 MiB, 5 MiB and 3 MiB live; one block of 8 MiB freed in between."""
    recorder = Recorder(AllocatorSettings())
    for size in (30, 8, 5, 3):
        recorder.malloc(size * MIB)
    recorder.free(1)
    return recorder


def test_a_recording_replays(simple):
    device, settings = recorded(simple)
    result = exact(device.segments, device.timeline, settings)
    assert result.exact
    assert (result.addresses_right, result.addresses_total) == (4, 4)
    # 30 MiB is a segment of its own, 8 + 5 + 3 MiB share one of 20 MiB.
    assert result.events == [(Kind.SEGMENT_ALLOC, 30 * MIB), (Kind.SEGMENT_ALLOC, 20 * MIB)]
    assert result.peak_reserved_bytes == 50 * MIB
    assert result.peak_requested_bytes == 46 * MIB


def test_another_address_is_noticed(simple):
    device, settings = recorded(simple)
    address = device.timeline.address.copy()
    place = device.timeline.positions(Kind.ALLOC)[2]
    address[place] += 512
    result = exact(device.segments, replace(device.timeline, address=address), settings)
    assert result.addresses_right == 3
    assert not result.exact
    assert f"event {place}: {5 * MIB} bytes at" in result.misses[0]


def test_another_segment_size_is_noticed(simple):
    device, settings = recorded(simple)
    size = device.timeline.size_bytes.copy()
    size[device.timeline.positions(Kind.SEGMENT_ALLOC)[1]] = 16 * MIB
    timeline = replace(device.timeline, size_bytes=size)
    for result in (exact(device.segments, timeline, settings), blind(device.segments, timeline, settings)):
        assert not result.sequence_right
        assert not result.peak_right
        assert result.segment_events_right == 1
        text = (
            f"segment event 1: segment_alloc of {20 * MIB} bytes, recorded segment_alloc of {16 * MIB} bytes"
        )
        assert text in result.misses


def test_other_settings_are_noticed(simple):
    device, _ = recorded(simple)
    result = exact(device.segments, device.timeline, AllocatorSettings(expandable_segments=True))
    assert not result.sequence_right


def test_another_layout_is_noticed(simple):
    device, settings = recorded(simple)
    for change in (512, -512):
        device.segments[0].blocks[1].requested += change
        result = exact(device.segments, device.timeline, settings)
        device.segments[0].blocks[1].requested -= change
        assert result.sequence_right
        assert not result.layout_right
        assert "differs at the end" in result.misses[0]
    assert not exact(device.segments[:1], device.timeline, settings).layout_right


def test_a_free_of_an_unknown_block_is_counted(simple):
    device, settings = recorded(simple)
    address = device.timeline.address.copy()
    address[device.timeline.kind == Kind.FREE_REQUESTED] = 4096
    result = exact(device.segments, replace(device.timeline, address=address), settings)
    assert result.problems > 0
    assert not result.exact


def full(capacity: int, settings: AllocatorSettings) -> Recorder:
    """A device that gets full: 40 MiB are cached when 70 MiB are asked for, with room for 100 MiB."""
    recorder = Recorder(settings, capacity)
    recorder.malloc(24 * MIB)
    recorder.malloc(40 * MIB)
    recorder.free(1)
    assert recorder.malloc(70 * MIB) is not None
    return recorder


def test_a_retry_tells_the_capacity():
    recorder = full(100 * MIB, AllocatorSettings())
    device, settings = recorded(recorder)
    # 24 + 70 = 94 MiB fit at the end; 24 + 40 + 70 = 134 MiB did not.
    found = capacities(device.timeline, 0)
    assert found[1:] == [94 * MIB, 134 * MIB - 1]
    result = blind(device.segments, device.timeline, settings)
    assert result.sequence_right
    assert result.retries == 1
    assert result.capacity_bytes == found[0]


def test_an_oom_tells_the_capacity_exactly():
    recorder = full(100 * MIB, AllocatorSettings())
    assert recorder.malloc(50 * MIB) is None
    device, settings = recorded(recorder)
    assert capacities(device.timeline, 0)[0] == 100 * MIB
    result = blind(device.segments, device.timeline, settings)
    assert result.sequence_right
    assert result.capacity_bytes == 100 * MIB
    assert result.ooms == device.timeline.positions(Kind.OOM).tolist()
    assert result.events[-1] == (Kind.OOM, 50 * MIB)
    result = exact(device.segments, device.timeline, settings)
    assert result.exact
    assert result.ooms == device.timeline.positions(Kind.OOM).tolist()


def test_an_oom_of_expandable_segments():
    recorder = full(100 * MIB, AllocatorSettings(expandable_segments=True))
    assert recorder.malloc(50 * MIB) is None
    device, settings = recorded(recorder)
    for replay in (exact, blind):
        result = replay(device.segments, device.timeline, settings)
        assert result.sequence_right, result.misses
        assert result.events[-1] == (Kind.OOM, 50 * MIB)


def test_a_part_of_the_cache_is_released_with_a_largest_split_size():
    recorder = Recorder(AllocatorSettings(max_split_size_bytes=20 * MIB), 100 * MIB)
    recorder.malloc(30 * MIB)
    recorder.malloc(24 * MIB)
    recorder.malloc(3 * MIB)  # a segment of 20 MiB
    for _ in range(3):
        recorder.free(0)
    # 30 + 24 + 20 of 100 MiB are reserved and free; for 40 MiB, too large for a cached block, 30 and 24 MiB go, and
    # the 20 MiB for smaller blocks stay.
    recorder.malloc(40 * MIB)
    device, settings = recorded(recorder)
    assert len(device.segments) == 2
    assert recorder.allocator.num_alloc_retries == 0
    result = exact(device.segments, device.timeline, settings)
    assert result.exact, result.misses
    assert result.capacity_bytes is not None


def test_an_emptied_cache_is_no_pressure():
    recorder = Recorder(AllocatorSettings())
    recorder.malloc(40 * MIB)
    recorder.free(0)
    recorder.empty_cache()
    recorder.malloc(3 * MIB)
    recorder.malloc(30 * MIB)
    recorder.empty_cache()
    recorder.malloc(5 * MIB)
    device, settings = recorded(recorder)
    # 40 + 20 MiB would not have fitted, yet 20 + 30 MiB did: the first release allows a capacity, but with it the
    # segments would not be the recorded ones, so the moments come from the trace.
    result = blind(device.segments, device.timeline, settings)
    assert result.sequence_right
    assert result.peak_reserved_bytes == 50 * MIB


def test_an_emptied_cache_and_a_retry_in_one_trace():
    recorder = Recorder(AllocatorSettings(), 100 * MIB)
    recorder.malloc(12 * MIB)
    recorder.free(0)
    recorder.empty_cache()
    recorder.malloc(30 * MIB)  # 12 + 30 MiB would have fitted: nothing but empty_cache released the 12
    recorder.malloc(40 * MIB)
    recorder.free(1)
    recorder.malloc(62 * MIB)  # 30 + 40 + 62 MiB do not fit, 30 + 62 do
    device, settings = recorded(recorder)
    assert capacities(device.timeline, 0)[1:] == [92 * MIB, 132 * MIB - 1]
    result = blind(device.segments, device.timeline, settings)
    assert result.sequence_right
    assert result.retries == 1
    assert result.capacity_bytes == 112 * MIB - 1  # between the two
    assert exact(device.segments, device.timeline, settings, capacity_bytes=100 * MIB).exact


def test_no_pressure_no_capacity():
    assert capacities(read(snapshot(traces=[[event("alloc")]])).devices[0].timeline, 0) == []


def test_private_pools_keep_to_themselves():
    recorder = Recorder(AllocatorSettings())
    recorder.malloc(3 * MIB)
    recorder.malloc(3 * MIB, pool=(0, 1))
    recorder.free(0)
    recorder.malloc(2 * MIB, pool=(0, 1))
    device, settings = recorded(recorder)
    assert [segment.pool for segment in device.segments] == [(0, 1), (0, 0)]
    result = exact(device.segments, device.timeline, settings)
    assert result.exact, result.misses


def test_devices_without_events_replay_to_what_they_are():
    device = read(snapshot([segment()], [[]])).devices[0]
    result = exact(device.segments, device.timeline, AllocatorSettings())
    assert result.exact
    assert result.peak_reserved_bytes == 2 * MIB


@pytest.fixture
def folder(tmp_path, simple):
    simple.save(tmp_path / "a.pickle")
    full(100 * MIB, AllocatorSettings()).save(tmp_path / "b.pkl")
    return tmp_path


def test_the_command_replays_a_folder(folder, capsys):
    assert main(["snapshots", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "2 snapshots" in out
    assert "No misses." in out
    assert main(["snapshots", str(folder), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["traces"] == result["blind_sequence_right"] == result["final_layout_right"] == 2
    assert result["addresses_right"] == result["addresses_total"] == 7
    assert result["segment_events_right"] == result["segment_events_total"] == 6
    assert {"peak_reserved_right", "blind_peak_right", "seconds", "events"} <= set(result)


def test_the_command_names_every_miss(folder, capsys):
    (folder / "c.pickle").write_bytes(b"\x80\x04]")
    manifest = [{"file": "a.pickle", "events": 9, "peak_reserved_bytes": [1], "peak_allocated_bytes": [2]}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert main(["snapshots", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"device 0: peak reserved: expected 1, got {50 * MIB}" in out
    assert f"device 0: peak allocated: expected 2, got {46 * MIB}" in out
    assert "events: expected 9, got 8" in out
    assert "c.pickle\n    reading: expected a snapshot, got" in out


def test_folders_that_cannot_be_replayed(tmp_path, capsys):
    assert main(["snapshots", str(tmp_path / "nowhere")]) == 2
    assert main(["snapshots", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 2


def test_columns_of_another_length_do_not_pass_silently(simple):
    device, settings = recorded(simple)
    shorter = replace(device.timeline, stream=np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="zip"):
        exact(device.segments, shorter, settings)
