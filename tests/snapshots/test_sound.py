"""The synthetic snapshots are what they claim to be: PyTorch's format, and what PyTorch's allocator would do."""

from __future__ import annotations

import pytest

from oomph.evidence.snapshot import Snapshot, allocator_settings, from_bytes
from oomph.memory.replay import exact
from oomph.memory.replay.result import Replay
from oomph.memory.timeline import Kind
from tests.snapshots.every import SCENARIOS
from tests.snapshots.frames import STYLES
from tests.snapshots.scenarios import elsewhere, fragmentation, full, growth, training
from tests.snapshots.truth import FRAGMENTED
from tests.snapshots.written import ERAS, Made


def read(made: Made, era: str = "2.13", last: int | None = None) -> Snapshot:
    return from_bytes(made.pickled(era, last), "synthetic.pickle")


def replayed(snapshot: Snapshot, index: int) -> Replay:
    device = snapshot.devices[index]
    return exact(device.segments, device.timeline, allocator_settings(snapshot))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_recording_replays_exactly(name: str, seed: int):
    made = SCENARIOS[name](seed, STYLES[seed])
    snapshot = read(made)
    for device in made.devices:
        replay = replayed(snapshot, device.options.index)
        assert replay.exact, replay.misses
        assert replay.events_total == len(device.events)
        assert replay.peak_reserved_bytes == device.allocator.peak_reserved_bytes
        assert replay.peak_allocated_bytes == device.allocator.peak_allocated_bytes


@pytest.mark.parametrize("name", SCENARIOS)
def test_segments_hold_what_is_in_use(name: str):
    made = SCENARIOS[name](4, "python")
    snapshot = read(made)
    for device in made.devices:
        segments = snapshot.devices[device.options.index].segments
        blocks = [block for segment in segments for block in segment.blocks]
        used = sum(block.size for block in blocks if block.state == "active_allocated")
        assert used == sum(tensor.size_bytes for tensor in device.alive.values())
        assert sum(segment.size for segment in segments) == device.allocator.reserved_bytes


@pytest.mark.parametrize("name", [name for name in SCENARIOS if not name.startswith("growth.")])
def test_the_truth_about_a_failure_adds_up(name: str):
    made = SCENARIOS[name](5, "none")
    failed = made.truth.failed
    if failed is None:
        assert not made.device.failures
        return
    event = made.device.events[failed.position]
    assert event["action"] == "oom"
    assert event["device_free"] == failed.free_bytes
    assert event["size"] == failed.request_bytes
    room = made.device.options.total_bytes - made.device.outside_bytes
    assert failed.free_bytes + failed.reserved_bytes == room
    assert failed.cached_bytes + failed.allocated_bytes == failed.reserved_bytes
    assert sum(failed.categories.values()) == failed.allocated_bytes


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("era", ERAS)
def test_every_era_is_read_as_what_it_is(era: str, style: str):
    for made in (training.dies_and_unwinds(1, style), fragmentation.tails(2, style)):
        snapshot = read(made, era)
        assert snapshot.era.name == era
        assert replayed(snapshot, 0).exact
        timeline = snapshot.devices[0].timeline
        assert (timeline.frame_lists is None) == (style == "none")
        assert (int(timeline.time_us[0]) == -1) == (era in ("2.0", "2.1"))


def test_stacks_of_python_alone_are_empty_on_the_autograd_thread():
    timeline = read(training.backward(1, "python")).devices[0].timeline
    failed = int(timeline.positions(Kind.OOM)[-1])
    assert timeline.stack_of(failed) == -1
    timeline = read(training.backward(1, "all")).devices[0].timeline
    names = [frame.function for frame in timeline.stacks.frames(timeline.stack_of(failed))]
    assert any("Engine::thread_main" in name for name in names)


def test_frames_are_shared_and_their_lists_are_not():
    events = training.dies_and_unwinds(1, "all").content()["device_traces"][0]
    allocs = [event for event in events if event["action"] == "alloc"]
    same = [event["frames"] for event in allocs if event["frames"] == allocs[0]["frames"]]
    assert len(same) > 1
    assert same[0] is not same[1]
    assert same[0][0] is same[1][0]


@pytest.mark.parametrize("protocol", [2, 4])
def test_protocols_and_seeds(protocol: int):
    first, again = (growth.keeps_two(3).roomy() for _ in range(2))
    assert first.pickled(protocol=protocol) == again.pickled(protocol=protocol)
    snapshot = from_bytes(first.pickled(protocol=protocol), "synthetic.pickle")
    assert len(snapshot.devices[0].timeline) == len(first.device.events)
    assert replayed(snapshot, 0).exact
    assert growth.keeps_two(4).roomy().pickled() != first.pickled()


@pytest.mark.parametrize("last", [1, 50, 400, 1000])
def test_a_ring_that_lost_its_start(last: int):
    made = growth.keeps_logits(1).roomy()
    snapshot = read(made, last=last)
    assert len(snapshot.devices[0].timeline) == last
    replay = replayed(snapshot, 0)
    assert replay.exact or replay.unsure


def test_an_expandable_device_would_have_served_what_was_fragmented():
    for seed in range(6):
        made = fragmentation.heads(seed)
        assert made.truth.verdict == FRAGMENTED
        assert fragmentation.heads_would_fit(seed, made.device.settings) is False


def test_a_full_card_is_full_by_its_own_sums():
    for seed in range(6):
        for way in full.WAYS.values():
            failed = way(seed, "none").truth.failed
            assert failed is not None
            assert failed.short_by_bytes > 0


def test_a_cap_leaves_the_device_room():
    for seed in range(6):
        failed = elsewhere.capped(seed).truth.failed
        assert failed is not None
        assert failed.free_bytes > failed.segment_bytes
