"""A smaller snapshot: what PyTorch's viewer needs is there, and a replay of it is as exact as one of the whole."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.model import How, Steps
from oomph.diagnose.snapshot.places import is_generated, is_python, is_users
from oomph.errors import UsageError
from oomph.evidence.snapshot import allocator_settings, from_bytes, read
from oomph.memory.moment import window
from oomph.memory.replay import blind, exact
from oomph.memory.stacks import Frame
from oomph.memory.timeline import Kind
from oomph.report.exports import export
from oomph.report.exports.exactly import Ends, exactly
from oomph.report.exports.smaller import smaller
from oomph.report.exports.window import MOST_EVENTS, around_the_moment, whole_requests
from oomph.units import KIB, MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, segment, snapshot
from tests.evidence.snapshot.test_formats import ERAS, torch_2_0
from tests.memory.replay.recorder import Recorder
from tests.memory.replay.test_round_trip import SETTINGS as RECORDED
from tests.memory.replay.test_round_trip import play
from tests.report.exports import story


def written(tmp_path, analysis, **options) -> dict[str, Any]:
    """The file, as whoever unpickles it sees it; oomph's own reader accepts it too."""
    path = tmp_path / "smaller.pickle"
    export(path, analysis, **options)
    read(path)
    found: dict[str, Any] = pickle.loads(path.read_bytes())  # noqa: S301 - written a line above
    return found


def analysis_of(content: Any, **more: Any) -> Analysis:
    return Analysis(from_bytes(pickle.dumps(content), "run.pickle"), 0, **more)


def test_events_of_the_window_and_the_segments_at_its_end(tmp_path):
    found = written(tmp_path, story.analysis(), first=1, last=3)
    # The segment_alloc belongs to the request that needed it.
    assert found["device_traces"] == [story.trace()[:3]]
    (whole,) = found["segments"]
    assert (whole["address"], whole["total_size"], whole["segment_type"]) == (BASE, 20 * MIB, "large")
    assert [(each["address"], each["size"], each["state"]) for each in whole["blocks"]] == [
        (BASE, 4 * MIB, "active_allocated"),
        (BASE + 4 * MIB, 6 * MIB, "active_allocated"),
        (BASE + 10 * MIB, 10 * MIB, "inactive"),
    ]
    assert [whole[name] for name in ("allocated_size", "active_size", "requested_size")] == [10 * MIB] * 3
    assert whole["blocks"][0]["frames"] == story.MODEL
    assert whole["blocks"][2]["frames"] == []


def test_the_default_ends_at_the_moment(tmp_path):
    assert written(tmp_path, story.analysis())["device_traces"] == [story.trace()[:3]]
    assert written(tmp_path, story.analysis(at="end"))["device_traces"] == [story.trace()]


def test_a_free_that_is_not_complete(tmp_path):
    (whole,) = written(tmp_path, story.analysis(), first=0, last=4)["segments"]
    assert whole["blocks"][0]["state"] == "active_pending_free"
    assert (whole["allocated_size"], whole["active_size"]) == (6 * MIB, 10 * MIB)
    assert whole["blocks"][0]["frames"] == story.MODEL


def test_equal_frames_and_stacks_are_kept_once(tmp_path):
    found = written(tmp_path, story.analysis(at="end"))
    _, first, second, freed, _ = found["device_traces"][0]
    assert first["frames"] is freed["frames"]
    assert found["segments"][0]["blocks"][1]["frames"] is second["frames"]
    main = {id(frame) for one in (first, second) for frame in one["frames"] if frame["line"] == 40}
    assert len(main) == 1


def test_the_device_keeps_its_number(tmp_path):
    content = snapshot([segment(device=2)], [[], [], [event("alloc")], []])
    analysis = Analysis(from_bytes(pickle.dumps(content), "run.pickle"), 2)
    found = written(tmp_path, analysis)
    assert [len(trace) for trace in found["device_traces"]] == [0, 0, 1]
    assert found["segments"][0]["device"] == 2


def test_settings_are_kept(tmp_path):
    known = SETTINGS | {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "max_split_size": 64 * MIB}
    odd = {"other": [1], 3: 4, "deep": {"a": 1, "b": []}}
    found = written(tmp_path, story.analysis(allocator_settings=known | odd), redact=True)
    assert found["allocator_settings"] == known | {"deep": {"a": 1}}


def test_unknown_text_among_the_settings_is_redacted(tmp_path):
    unknown = SETTINGS | {"PYTORCH_CUDA_ALLOC_CONF": "/home/jane/conf"}
    found = written(tmp_path, story.analysis(allocator_settings=unknown), redact=True)
    assert found["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] == ""


def test_an_oom_keeps_what_was_free(tmp_path):
    oom = {"action": "oom", "device_free": 77, "size": 1 << 30, "stream": 0, "time_us": 9, "frames": []}
    content = snapshot(traces=[[event("alloc", BASE, 512, time_us=8), oom]])
    assert written(tmp_path, analysis_of(content))["device_traces"][0][1] == oom


def keys_of(found: Any) -> tuple[set[str], set[str], set[str], set[str]]:
    """Of the whole, of an event, of a segment, of a block."""
    return (
        set(found),
        set(found["device_traces"][0][0]),
        set(found["segments"][0]),
        set(found["segments"][0]["blocks"][0]),
    )


#: Keys of events that these versions write and the samples leave out (docs/snapshots.md, "Reading").
BESIDES = {
    "2.9": {"compile_context"},
    "2.13": {"compile_context"},
    "2.14": {"compile_context", "user_metadata"},
}


@pytest.mark.parametrize("name", ERAS)
def test_every_format_keeps_its_keys(tmp_path, name):
    found = written(tmp_path, analysis_of(ERAS[name]))
    whole, events, segments, blocks = keys_of(ERAS[name])
    assert keys_of(found) == (whole, events | BESIDES.get(name, set()), segments, blocks)
    assert from_bytes(pickle.dumps(found), "again.pickle").era.name == name


def test_the_first_format_has_histories_in_place_of_addresses(tmp_path):
    content = torch_2_0()
    found = written(tmp_path, analysis_of(content))
    assert keys_of(found)[1:3] == keys_of(content)[1:3]
    kept = found["segments"][0]["blocks"]
    assert "address" not in kept[0]
    assert from_bytes(pickle.dumps(found), "again.pickle").era.name == "2.0"


def annotated(*ranges: tuple[str, str, int], device: int = 0) -> dict[str, Any]:
    named = [{"name": name, "stage": stage, "device": device, "time_us": at} for name, stage, at in ranges]
    return {"external_annotations": named}


def test_annotations_of_the_windows_time_and_those_that_were_open(tmp_path):
    ranges = (
        ("epoch", "START", 1),
        ("warm-up", "START", 2),
        ("warm-up", "END", 5),
        ("step", "START", 25),
        ("step", "END", 35),
        ("save", "START", 45),
        ("epoch", "END", 60),
    )
    found = written(tmp_path, story.analysis(**annotated(*ranges)), first=2, last=4)
    kept = [(each["name"], each["stage"], each["time_us"]) for each in found["external_annotations"]]
    # Events 2 and 3 are of 30 and 40 us.
    assert kept == [("epoch", "START", 1), ("step", "START", 25), ("step", "END", 35)]
    other = written(tmp_path, story.analysis(**annotated(*ranges, device=1)), first=2, last=4)
    assert other["external_annotations"] == []


@pytest.mark.parametrize("redact", [False, True])
def test_hostile_names(tmp_path, redact):
    found = written(tmp_path, story.hostile(), redact=redact)
    names = [one["frames"][0]["name"] for one in found["device_traces"][0][1:]]
    assert len(names) == len(story.HOSTILE)
    assert not any(
        ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 for name in names for character in name
    )


def test_frames_that_are_none(tmp_path):
    trace = [event("alloc", BASE, 512, frames=["x", {"name": 1}, {"filename": "a.py", "fx_node_op": "mm"}])]
    (one,) = written(tmp_path, analysis_of(snapshot(traces=[trace])))["device_traces"][0]
    assert one["frames"] == [
        {"name": "?", "filename": "?", "line": 0},
        {"name": "?", "filename": "?", "line": 0},
        {"name": "?", "filename": "a.py", "line": 0, "fx_node_op": "mm"},
    ]


def test_redacted(tmp_path):
    trace = story.trace()
    trace[1]["frames"] = [{**story.MODEL[0], "fx_original_trace": "at /home/jane/model.py\nin forward"}]
    more = annotated(("copy to jane@node17:/scratch", "START", 15))
    analysis = story.analysis("/home/jane/run.pickle", device_traces=[trace], **more)
    found = written(tmp_path, analysis, redact=True)
    assert "jane" not in str(found)
    assert "node17" not in str(found)
    assert found["device_traces"][0][1]["frames"][0]["filename"] == "/path/model.py"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/jane/model.py", "/path/model.py"),
        (
            "/home/jane/env/lib/python3.11/site-packages/torch/optim/adam.py",
            "/site-packages/torch/optim/adam.py",
        ),
        ("C:\\Users\\jane\\Lib\\site-packages\\torch\\optim\\adam.py", "/site-packages/torch/optim/adam.py"),
        ("/home/jane/conda/lib/python3.11/threading.py", "/lib/python3/threading.py"),
        ("/home/jane/src/Python/ceval.c", "/path/ceval.c"),
        (f"/tmp/torchinductor_jane/ab/c{'a2' * 25}b.py", "/torchinductor/<secret>.py"),
        ("empty.cpp", "empty.cpp"),
        ("??", "??"),
        ("<string>", "<string>"),
    ],
)
def test_redacted_files_can_still_be_told_apart(tmp_path, file, expected):
    trace = [event("alloc", BASE, 512, frames=[{"name": "f", "filename": file, "line": 1}])]
    (one,) = written(tmp_path, analysis_of(snapshot(traces=[trace])), redact=True)["device_traces"][0]
    shown = one["frames"][0]["filename"]
    assert shown == expected
    before, after = Frame("f", file, 1), Frame("f", shown, 1)
    for told in (is_python, is_users, is_generated):
        assert told(after) == told(before)


# -- which window -----------------------------------------------------------------------------------------------------


def long_trace(events: int, at: str | None = None, steps: tuple[int, ...] = ()) -> Analysis:
    """Allocs and frees of one block, with steps said to begin at these positions."""
    cycle = [
        event("alloc", BASE, 512),
        event("free_requested", BASE, 512),
        event("free_completed", BASE, 512),
    ]
    analysis = analysis_of(snapshot(traces=[(cycle * (events // 3 + 1))[:events]]), at=at)
    analysis.__dict__["steps"] = Steps(len(steps), How.PERIOD, Certainty.LIKELY, "", steps)
    return analysis


def test_from_the_step_before_to_the_moment():
    analysis = long_trace(300, "250", (30, 90, 150, 210, 270))
    assert around_the_moment(analysis) == (150, 251)


def test_without_two_steps_from_the_beginning():
    assert around_the_moment(long_trace(300, "250")) == (0, 251)
    assert around_the_moment(long_trace(300, "250", (90,))) == (0, 251)
    assert around_the_moment(long_trace(300, "start", (90,))) == (0, 0)


def test_at_most_so_many_events():
    last = MOST_EVENTS + 90
    assert around_the_moment(long_trace(MOST_EVENTS + 300, str(last), (30, 60))) == (91, last + 1)


def test_before_the_first_event_there_is_a_layout_and_no_events(tmp_path):
    found = written(tmp_path, story.analysis(at="start"))
    assert found["device_traces"] == [[]]
    assert found["segments"] == []


def test_a_window_without_events_is_refused(tmp_path):
    for first, last, asked in ((3, 3, "3:3"), (4, 2, "4:2"), (99, None, "99:"), (99, 200, "99:200")):
        with pytest.raises(UsageError, match=f"window {asked} holds no events; the trace has events 0 to 4"):
            export(tmp_path / "x.pickle", story.analysis(), first=first, last=last)


def test_requests_are_kept_whole():
    sizes = ("alloc", "segment_free", "segment_free", "segment_alloc", "alloc", "free_requested")
    timeline = analysis_of(snapshot(traces=[[event(action) for action in sizes]])).timeline
    assert whole_requests(timeline, 2, 5) == (1, 5)
    assert whole_requests(timeline, 4, 6) == (1, 6)
    assert whole_requests(timeline, 0, 2) == (0, 5)
    assert whole_requests(timeline, 5, 6) == (5, 6)
    assert whole_requests(timeline, 0, 0) == (0, 0)


# -- replays ----------------------------------------------------------------------------------------------------------


def assert_replays(content: dict[str, Any]) -> None:
    again = from_bytes(pickle.dumps(content), "again.pickle")
    device, in_effect = again.devices[0], allocator_settings(again)
    result = exact(device.segments, device.timeline, in_effect)
    assert result.exact, result.misses
    result = blind(device.segments, device.timeline, in_effect)
    assert result.sequence_right, result.misses
    assert result.peak_right


@pytest.mark.parametrize("name", RECORDED)
@given(st.integers(0, 10**6), st.integers(1, 2), st.booleans(), st.sampled_from([None, 60, 150]))
def test_every_cut_of_a_recording_replays_exactly(
    name: str, seed: int, streams: int, waits: bool, mib: int | None
):
    recorder = Recorder(RECORDED[name], None if mib is None else mib * MIB)
    whole = mib is None  # what a full device does is recorded without empty_cache and other streams' work
    play(recorder, seed, 80, streams=streams, empties=whole, waits=waits and whole)
    analysis = Analysis(recorder.snapshot(), 0)
    first, last = sorted(random.Random(seed).sample(range(len(recorder.events) + 1), 2))
    ends = exactly(analysis, first, last)
    assert ends.first <= first < last <= ends.last
    assert_replays(smaller(analysis, ends))


def kept_rest() -> tuple[Recorder, int, int]:
    """A block of 8 MiB that was given 8.5 MiB, because a rest of 0.5 MiB is not split off, with a hole of 4 MiB behind
    it. Returns the recording, where that block was allocated, and where the window begins.

    Whoever takes the 0.5 MiB for free sees a hole of 4.5 MiB, which a request of 4.4 MiB fits into. In truth it goes
    into one of 5 MiB.
    """
    recorder = Recorder(RECORDED["default"])

    def malloc(mib: float) -> int:
        recorder.malloc(int(mib * 1024) * KIB)
        return len(recorder.live) - 1

    # One segment of 20 MiB: 8.5, 4 and 7.5. Another: 5 and 15.
    for mib in (8.5, 4, 7.5, 5, 15):
        malloc(mib)
    recorder.free(0)
    born = len(recorder.events)
    malloc(8)
    recorder.free(0)
    recorder.free(1)
    first = len(recorder.events)
    malloc(4.4)
    recorder.free(2)
    return recorder, born, first


def test_a_window_begins_earlier_where_a_blocks_size_shows_only_there():
    recorder, born, first = kept_rest()
    analysis = Analysis(recorder.snapshot(), 0)
    last = len(analysis.timeline)
    kinds, sizes = analysis.timeline.kind, analysis.timeline.size_bytes
    assert (kinds[born], sizes[born]) == (Kind.ALLOC, 8 * MIB)
    assert (kinds[last - 1], sizes[last - 1]) == (Kind.FREE_COMPLETED, 8 * MIB)
    ends = exactly(analysis, first, last)
    assert (ends.first, ends.last) == (born, last)
    assert_replays(smaller(analysis, ends))
    # As asked for it would not have: so the test tests something.
    asked = Ends(first, last, ends.layout)
    assert not exact(asked.layout, window(analysis.timeline, first, last), analysis.settings).exact


def test_a_trace_that_contradicts_itself_is_cut_as_asked_for(tmp_path):
    trace = [
        event("segment_alloc", BASE, 2 * MIB),
        event("alloc", BASE + MIB, 512),
        event("free_requested", BASE + 4 * MIB, 512),
        event("alloc", BASE, 512),
    ]
    blocks = [block(BASE, 512), block(BASE + 512, 2 * MIB - 512, "inactive")]
    found = written(tmp_path, analysis_of(snapshot([segment(blocks=blocks)], [trace])), first=2, last=4)
    assert [each["action"] for each in found["device_traces"][0]] == ["free_requested", "alloc"]
