"""Every format that PyTorch wrote, told by its keys; expected keys are those of the versions' own sources and files."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.evidence.snapshot import allocator_settings
from oomph.memory.stacks import Frame
from oomph.memory.timeline import Kind
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, FRAMES, SETTINGS, block, event, read, segment, snapshot


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def torch_2_0() -> dict[str, Any]:
    """No addresses of blocks, whose stacks are in a history; no pools, no expandable segments, no times."""
    blocks = [
        {
            "size": 512,
            "requested_size": 500,
            "state": "active_allocated",
            "history": [{"addr": BASE, "real_size": 500, "frames": FRAMES}],
        },
        {"size": 2 * MIB - 512, "requested_size": 0, "state": "inactive"},
    ]
    whole = without(segment(blocks=blocks), "segment_pool_id", "is_expandable", "frames")
    return {"segments": [whole], "device_traces": [[without(event("alloc"), "time_us")]]}


def torch_2_1() -> dict[str, Any]:
    return {"segments": [segment()], "device_traces": [[without(event("alloc"), "time_us")]]}


def test_2_0_blocks_get_their_addresses_and_stacks():
    result = read(torch_2_0())
    assert result.era.torch == (2, 0)
    device = result.devices[0]
    assert [each.key() for each in device.segments[0].blocks] == [
        (BASE, 512, 500, "active_allocated"),
        (BASE + 512, 2 * MIB - 512, 0, "inactive"),
    ]
    assert device.segments[0].pool == (0, 0)
    assert device.timeline.time_us.tolist() == [-1]
    number = device.block_stacks[BASE]
    assert device.timeline.stacks.frames(number) == (
        Frame("forward", "model.py", 12),
        Frame("train", "train.py", 40),
    )


ERAS = {
    "2.1": torch_2_1(),
    "2.3": torch_2_1() | {"device_traces": [[event("alloc")]]},
    "2.4": without(snapshot(), "external_annotations"),
    "2.6": snapshot(),
    "2.8": snapshot(traces=[[event("alloc", compile_context="N/A")]]),
    "2.9": snapshot(allocator_settings=SETTINGS | {"graph_capture_record_stream_reuse": False}),
    "2.10": snapshot(traces=[[event("alloc", compile_context="N/A", user_metadata="")]]),
    "2.13": snapshot(traces=[[event("alloc", user_metadata="", pool_id=(0, 0))]]),
    "2.14": snapshot(host_segments=[], host_traces=[]),
}


@pytest.mark.parametrize("name", ERAS)
def test_eras(name):
    assert read(ERAS[name]).era.name == name


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols(protocol):
    result = read(snapshot(), protocol)
    assert result.era.name == "2.6"
    assert result.devices[0].segments[0].key() == (BASE, 2 * MIB, 0, (0, 0), True, False)
    events = result.devices[0].timeline
    columns = (events.kind, events.address, events.size_bytes, events.time_us, events.stream)
    assert [column.tolist() for column in columns] == [[Kind.ALLOC], [BASE], [512], [1], [0]]


def test_an_oom_has_the_free_bytes_in_place_of_an_address():
    oom = without(event("oom", size=4096), "addr") | {"device_free": 1234}
    written_in_c = event("oom", addr=99, size=4096)
    events = read(snapshot(traces=[[event("alloc"), oom, written_in_c]])).devices[0].timeline
    assert events.free_bytes == {1: 1234, 2: 99}
    assert events.address.tolist() == [BASE, 0, 0]
    assert events.size_bytes.tolist() == [512, 4096, 4096]


def test_marks_need_neither_address_nor_size():
    marks = [{"action": "snapshot", "stream": 0}, {"action": "annotate", "stream": 0}]
    events = read(snapshot(traces=[marks])).devices[0].timeline
    assert events.kind.tolist() == [Kind.SNAPSHOT, Kind.ANNOTATE]
    assert events.size_bytes.tolist() == [0, 0]


def test_unknown_actions_are_left_out_with_a_note():
    result = read(snapshot(traces=[[event("teleport"), event("alloc"), event("teleport")]]))
    assert len(result.devices[0].timeline) == 1
    assert result.notes == ("2 events were left out: the action 'teleport' is not known",)


def test_both_words_for_a_block_that_waits():
    for state in ("active_pending_free", "active_awaiting_free"):
        result = read(snapshot([segment(blocks=[block(BASE, 2 * MIB, state)])]))
        assert result.devices[0].segments[0].blocks[0].state == "active_pending_free"


def test_pools_as_tuples_and_as_lists():
    traces = [
        [event("alloc", pool_id=(0, 3)), event("alloc", pool_id=[0, 0]), event("alloc", pool_id=(0, 3))]
    ]
    result = read(snapshot([segment(segment_pool_id=[0, 3])], traces))
    events = result.devices[0].timeline
    assert events.pools == ((0, 3), (0, 0))
    assert events.pool.tolist() == [0, 1, 0]
    assert [events.pool_at(position) for position in range(3)] == [(0, 3), (0, 0), (0, 3)]
    assert result.devices[0].segments[0].pool == (0, 3)


def test_several_devices_and_unused_ones():
    traces = [[], [event("alloc"), event("free_requested")], []]
    result = read(snapshot([segment(device=1), segment(device=4)], traces))
    assert [len(device.timeline) for device in result.devices] == [0, 2, 0, 0, 0]
    assert [device.reserved_bytes for device in result.devices] == [0, 2 * MIB, 0, 0, 2 * MIB]
    assert result.has_history


def test_segments_come_in_the_order_of_their_addresses():
    result = read(snapshot([segment(BASE + 8 * MIB), segment(BASE)]))
    assert [each.address for each in result.devices[0].segments] == [BASE, BASE + 8 * MIB]


@pytest.mark.parametrize("content", [snapshot(traces=[]), snapshot(traces=[[]]), [segment()]])
def test_without_history(content):
    result = read(content)
    assert not result.has_history
    assert result.devices[0].reserved_bytes == 2 * MIB


def test_stacks_are_shared_by_what_they_hold():
    other = [FRAMES[1]]
    traces = [[event("alloc", frames=frames) for frames in (FRAMES, list(FRAMES), other, [], FRAMES)]]
    events = read(snapshot(traces=traces)).devices[0].timeline
    assert events.stack_id.tolist() == [0, 0, 1, -1, 0]
    assert events.stack_of(2) == 1
    assert events.stack_ids(events.positions(Kind.ALLOC)[1:4]).tolist() == [0, 1, -1]
    assert len(events.stacks) == 2
    assert events.stacks.frames(1) == (Frame("train", "train.py", 40),)
    assert events.stacks.frames(-1) == ()


def test_stacks_that_were_not_recorded():
    events = read(snapshot(traces=[[without(event("alloc"), "frames")]])).devices[0].timeline
    assert events.stack_id.tolist() == events.stack_ids([0]).tolist() == [-1]
    assert events.stack_of(0) == -1


def test_frames_of_a_damaged_file():
    frames = [{"name": 3, "filename": None}, "main", {"name": "f", "filename": "a.py", "line": 2, "fx": []}]
    events = read(snapshot(traces=[[event("alloc", frames=frames)]])).devices[0].timeline
    assert events.stacks.frames(events.stack_of(0)) == (
        Frame("?", "?", 0),
        Frame("?", "?", 0),
        Frame("f", "a.py", 2),
    )


def test_annotations():
    named = {"name": "step", "stage": "START", "device": 0, "time_us": 5}
    result = read(snapshot(external_annotations=[named, {"name": 1}, None]))
    assert [(each.name, each.stage, each.time_us) for each in result.annotations] == [("step", "START", 5)]


def test_reserved_changes():
    sizes = {"segment_alloc": 20, "segment_map": 7, "segment_unmap": 3, "segment_free": 20, "alloc": 9}
    traces = [[event(action, size=size) for action, size in sizes.items()]]
    events = read(snapshot(traces=traces)).devices[0].timeline
    assert events.reserved_change_bytes.tolist() == [20, 7, -3, -20, 0]


def conf(text: str = "", **values: Any) -> Any:
    return allocator_settings(
        read(snapshot(allocator_settings=SETTINGS | {"PYTORCH_CUDA_ALLOC_CONF": text} | values))
    )


def test_settings_in_effect_win_over_the_text():
    settings = conf("max_split_size_mb:100", max_split_size=200 * MIB, expandable_segments=True)
    assert settings.max_split_size_bytes == 200 * MIB
    assert settings.expandable_segments
    assert conf("max_split_size_mb:100").max_split_size_bytes is None  # -1: unlimited


def test_settings_only_the_text_has():
    assert conf("max_non_split_rounding_mb:64").max_non_split_rounding_bytes == 64 * MIB


def test_rounding_and_collection():
    divisions = {str(1 << bucket): 4 if bucket == 2 else 0 for bucket in range(16)}
    settings = conf(roundup_power2_divisions=divisions, garbage_collection_threshold=0.5)
    assert settings.roundup_power2_divisions == (0, 0, 4, *(0,) * 13)
    assert settings.garbage_collection_threshold == 0.5
    assert conf().roundup_power2_divisions == ()


def test_settings_that_pytorch_would_refuse_leave_the_defaults():
    assert conf("max_split_size_mb:banana") == conf("")
    assert conf("", max_split_size="x", roundup_power2_divisions=[1]) == conf("")


def test_settings_of_files_without_them():
    expandable = torch_2_1() | {"segments": [segment(is_expandable=True)]}
    assert allocator_settings(read(expandable)).expandable_segments
    assert not allocator_settings(read(torch_2_1())).expandable_segments
    assert allocator_settings(read(torch_2_1())).torch == (2, 1)
