"""Files that try to run code, to use up memory, or are simply damaged: one sentence, quickly, and nothing else."""

from __future__ import annotations

import gzip
import pickle
import pickletools
import struct
import subprocess
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from oomph.errors import InputError
from oomph.evidence.snapshot import Caps, Snapshot, from_bytes, opcodes, read
from tests.evidence.snapshot.build import BASE, FRAMES, block, event, segment, snapshot

GOOD = pickle.dumps(
    snapshot(
        segments=[segment(blocks=[block(BASE, 512, frames=FRAMES), block(BASE + 512, 2096640, "inactive")])],
        traces=[[event("alloc", frames=FRAMES), event("free_requested"), event("free_completed")], []],
    )
)


def refused(data: bytes, caps: Caps | None = None) -> str:
    """The sentence with which `data` is refused."""
    with pytest.raises(InputError) as caught:
        from_bytes(data, "run.pickle", caps or Caps())
    text = str(caught.value)
    assert text.startswith("run.pickle ")
    assert "\n" not in text
    assert len(text) < 300
    return text


class Runs:
    """Unpickled with `pickle.load`, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return subprocess.call, (["touch", str(self.path)],)


@pytest.mark.parametrize("protocol", range(6))
def test_code_is_not_run(tmp_path, protocol):
    made = tmp_path / "made"
    data = pickle.dumps(snapshot(extra=Runs(made)), protocol=protocol)
    refused(data)
    assert not made.exists()
    pickle.loads(data)  # noqa: S301 (the harmless danger itself)
    assert made.exists()


OPCODES = {
    "GLOBAL": b"cos\nsystem\n",
    "INST": b"(ios\nsystem\n",
    "OBJ": b"(]o",
    "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93",
    "REDUCE": b"])R",
    "NEWOBJ": b"])\x81",
    "NEWOBJ_EX": b"])}\x92",
    "BUILD": b"}}b",
    "EXT1": b"\x82\x01",
    "EXT2": b"\x83\x01\x00",
    "EXT4": b"\x84\x01\x00\x00\x00",
    "PERSID": b"P1\n",
    "BINPERSID": b"K\x01Q",
    "BINBYTES8": b"\x8e" + struct.pack("<Q", 1 << 60),
    "BYTEARRAY8": b"\x96" + struct.pack("<Q", 1 << 60),
    "NEXT_BUFFER": b"\x97",
    "LONG4": b"\x8b" + struct.pack("<i", 1 << 30),
    "LONG": b"L" + b"9" * 400 + b"L\n",
    "PUT": b"]p4294967295\n",
    "BINUNICODE8": b"\x8d" + struct.pack("<Q", 1 << 60),
    "DUP": b"]2",
    "POP": b"]0",
}


@pytest.mark.parametrize("name", OPCODES)
def test_opcodes_that_no_snapshot_needs_are_refused_by_name(name):
    text = refused(b"\x80\x05" + OPCODES[name] + b"." + b"." * 400)
    assert name in text
    runs_code = list(OPCODES).index(name) <= list(OPCODES).index("BINPERSID")
    assert ("would look up or call Python code" in text) == runs_code


def test_every_opcode_is_either_plain_data_or_refused():
    allowed = {
        "PROTO FRAME MARK EMPTY_DICT EMPTY_LIST SETITEMS SETITEM APPEND APPENDS TUPLE TUPLE1 TUPLE2 TUPLE3",
        "EMPTY_TUPLE MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET SHORT_BINUNICODE BINUNICODE BININT BININT1",
        "BININT2 LONG1 BINFLOAT NEWTRUE NEWFALSE NONE STOP",
    }
    names = {name for line in allowed for name in line.split()}
    for opcode in pickletools.opcodes:
        if opcode.name not in names:
            text = refused(b"\x80\x05" + opcode.code.encode("latin-1") + b"\x00" * 400)
            assert opcode.name in text


@pytest.mark.parametrize("before", [0, 1, 300, 20_000])
def test_code_behind_much_good_data_is_not_run(tmp_path, before):
    made = tmp_path / "made"
    events = [event("alloc", addr=BASE + 512 * i, size=1 << 40) for i in range(before)]
    refused(pickle.dumps(snapshot(traces=[events, Runs(made)]), protocol=4))
    assert not made.exists()


def test_a_damaged_length_does_not_hide_code():
    # Read one way these are texts, numbers and a frame; one byte further they would be calls.
    for cover in (b"\x8c\x03", b"\x8a\x03", b"X\x03\x00\x00\x00", b"\x95\x03" + b"\x00" * 7):
        assert "look up or call Python code" in refused(
            b"\x80\x05" + cover + b"abccos\nsystem\n." + b"." * 400
        )


def test_no_class_is_looked_up_even_when_the_look_lets_it_pass(monkeypatch):
    whole = opcodes.look(1000)
    monkeypatch.setattr(opcodes, "look", lambda size: lambda data, at: max(whole(data, at), len(data) - 1))
    for data in (
        b"cos\nsystem\n",
        b"\x8c\x02os\x8c\x06system\x93",
        b"(ios\nsystem\n",
        b"\x82\x01",
        b"K\x01Q",
    ):
        assert "does not hold together" in refused(b"\x80\x05" + data + b".")


def test_a_memo_index_beyond_the_file_is_refused():
    # Python's unpickler would reserve 64 GB for it.
    refused(b"\x80\x04]r\xff\xff\xff\xff." + b"." * 400)
    refused(b"\x80\x04]r\x00\x00\x00\x10." + b"." * 400)


def test_memo_indexes_within_the_file_are_read():
    content = snapshot(traces=[[event("alloc", addr=BASE + 512 * i) for i in range(3000)]])
    data = pickle.dumps(content, protocol=2)
    assert b"r\x00\x01\x00\x00" in data  # LONG_BINPUT 256
    assert len(from_bytes(data, "run.pickle").devices[0].timeline) == 3000


def test_shared_lists_that_unfold_to_more_than_all_memory():
    laughs: list[object] = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    for content in (laughs, {"segments": laughs}, snapshot(segments=[]) | {"device_traces": laughs}):
        refused(pickle.dumps(content))
    frames = snapshot(traces=[[event("alloc", frames=laughs)]])
    assert len(from_bytes(pickle.dumps(frames), "run.pickle").devices[0].timeline) == 1


def test_deep_nesting():
    depth = 200_000
    refused(b"\x80\x04" + b"]" * depth + b"a" * (depth - 1) + b".")
    refused(b"\x80\x04N" + b"\x85" * depth + b".")
    refused(b"\x80\x04" + b"(" * depth + b".")


def test_nesting_as_deep_as_the_caps_allow():
    depth = 999_000
    deep = b"]" * depth + b"a" * (depth - 1)
    text = refused(b"\x80\x04" + deep + b".")
    assert "has no segments" in text or "not a dict" in text
    # The same where frames, an event and settings would be: it is not walked.
    tuples = b"N" + b"\x85" * 200_000
    for key in (b"\x8c\x06frames", b"\x8c\x0fcompile_context"):
        one = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x00\x8c\x04sizeK\x01" + key + deep + b"u"
        data = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]]" + one + b"aau."
        events = from_bytes(data, "run.pickle").devices[0].timeline
        assert events.stack_id.tolist() == ([0] if b"frames" in key else [-1])
    refused(b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]" + tuples + b"au.")


def test_a_list_that_holds_itself():
    loop: list[object] = []
    loop.append(loop)
    refused(pickle.dumps(loop))
    refused(pickle.dumps(snapshot(traces=loop)))


def test_more_containers_than_a_snapshot_has():
    assert "lists and dicts" in refused(b"\x80\x04" + b"]" * 3_000_000 + b".")


def test_one_trace_for_many_devices():
    trace = [event("alloc")] * 1000
    assert "one and the same trace" in refused(pickle.dumps(snapshot(traces=[trace] * 100)))
    same = snapshot(traces=[[event("alloc")], [event("alloc")]])
    assert [len(device.timeline) for device in from_bytes(pickle.dumps(same), "run.pickle").devices] == [1, 1]


def test_one_event_named_more_often_than_a_file_has_events():
    trace = [event("alloc")] * 5000
    assert len(from_bytes(pickle.dumps(snapshot(traces=[trace])), "run.pickle").devices[0].timeline) == 5000
    text = refused(pickle.dumps(snapshot(traces=[trace, list(trace)])), Caps(events=9999))
    assert "lists 10000 events" in text


def test_stacks_that_name_the_trace_itself():
    trace = [event("alloc"), event("alloc")]
    trace[1]["frames"] = trace
    events = from_bytes(pickle.dumps(snapshot(traces=[trace])), "run.pickle").devices[0].timeline
    assert len(events) == 2
    assert all(
        frame.function == "?" for number in events.stack_id.tolist() for frame in events.stacks.frames(number)
    )


def test_frames_as_deep_and_as_many_as_the_file_can_name_them():
    endless = FRAMES * 50_000
    trace = [event("alloc", frames=endless) for _ in range(20_000)]
    events = from_bytes(pickle.dumps(snapshot(traces=[trace])), "run.pickle").devices[0].timeline
    assert set(events.stack_id.tolist()) == {0}


@pytest.mark.parametrize("bits", [72, 80, 2040, 1 << 20])
def test_huge_integers_are_refused_before_they_are_made(bits):
    number = -(1 << bits - 1)
    data = pickle.dumps(snapshot(traces=[[event("alloc", addr=number)]]), protocol=4)
    assert refused(data) == refused(data + b"." * 400)
    if bits > 72:
        assert "LONG" in refused(data + b"." * 400)


def test_a_frame_longer_than_the_file():
    data = pickle.dumps(snapshot(), protocol=4)
    assert data[2:3] == b"\x95"
    for length in (1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1):
        refused(data[:3] + struct.pack("<Q", length) + data[11:])


def test_keys_that_are_no_texts():
    odd = {1: 2, None: 3, (1, 2): 4, 0.5: 5}
    content = snapshot([segment() | odd], [[event("alloc") | odd]], allocator_settings=odd) | odd
    assert len(from_bytes(pickle.dumps(content), "run.pickle").devices[0].timeline) == 1
    refused(b"\x80\x04}(}Nu.")
    refused(b"\x80\x04}(]Nu.")


def test_long_texts():
    text = b"X" + struct.pack("<I", 5000) + b"a" * 5000
    assert "string of 5000 bytes" in refused(b"\x80\x04" + text + b".", Caps(text_bytes=4000))
    refused(b"\x80\x04X\xff\xff\xff\xff." + b"." * 400)


@pytest.mark.parametrize("number", [1 << 63, 1 << 64, -1, 1 << 500, 1.5, None, "12", [1], float("nan")])
def test_numbers_that_are_none(number):
    refused(pickle.dumps(snapshot(traces=[[event("alloc", addr=number), event("alloc")]])))
    refused(pickle.dumps(snapshot(segments=[segment(address=0) | {"total_size": number}])))
    refused(pickle.dumps(snapshot(segments=[segment() | {"blocks": [block(BASE, 512) | {"size": number}]}])))


@pytest.mark.parametrize(
    "content",
    [
        None,
        0,
        [],
        {},
        "segments",
        {"segments": None},
        {"segments": [None]},
        {"segments": [{}]},
        snapshot() | {"device_traces": None},
        snapshot() | {"device_traces": [None]},
        snapshot() | {"device_traces": [[None]]},
        snapshot() | {"device_traces": [[{}]]},
        snapshot() | {"device_traces": [[{"action": 1}]]},
        snapshot() | {"device_traces": [[{"action": ["alloc"]}]]},
        snapshot() | {"device_traces": [[{"action": "alloc"}]]},
        snapshot() | {"device_traces": [[event("alloc", frames="model.py")]]},
        snapshot() | {"device_traces": [[event("alloc")] * 1500 + [event("alloc", frames={"model.py": 1})]]},
        snapshot() | {"device_traces": [[event("alloc")] * 1500 + [["alloc"]]]},
        snapshot() | {"device_traces": [[event("alloc")] * 1500 + [{"action": ["alloc"]}]]},
        snapshot() | {"device_traces": [[event("alloc")] * 1500 + [{"action": "alloc", "addr": 1}]]},
        snapshot() | {"device_traces": [[event("alloc") | {"addr": None}]]},
        snapshot() | {"device_traces": [[event("snapshot", size=-1)]]},
        snapshot() | {"device_traces": [[event("alloc") | {"size": 1.0}]]},
        snapshot() | {"device_traces": {0: []}},
        snapshot() | {"device_traces": [[event("alloc", pool_id=(1, 2, 3))]]},
        snapshot() | {"device_traces": [[event("alloc", pool_id="ab")]]},
        snapshot() | {"device_traces": [[event("alloc", stream=None)]]},
        snapshot() | {"device_traces": [[]] * 5000},
        snapshot() | {"allocator_settings": []},
        snapshot() | {"external_annotations": {}},
        snapshot([segment() | {"device": 1 << 40}]),
        snapshot([segment() | {"device": -1}]),
        snapshot([segment() | {"segment_type": "medium"}]),
        snapshot([segment() | {"segment_type": []}]),
        snapshot([segment() | {"is_expandable": 1}]),
        snapshot([segment() | {"blocks": {}}]),
        snapshot([segment() | {"blocks": [{}]}]),
        snapshot([segment() | {"total_size": 4096}]),
        snapshot([segment(), segment()]),
        snapshot([segment(blocks=[block(BASE + 512, 2097152)])]),
        snapshot([segment(blocks=[block(BASE, 2097152, "lost")])]),
        snapshot([segment(blocks=[block(BASE, 2097152, frames=1)])]),
        snapshot([segment(blocks=[block(BASE, 2097152, history=[1]) | {"frames": None}])]),
    ],
)
def test_wrong_types_and_shapes(content):
    if content == []:  # the segments of a device that holds none
        assert from_bytes(pickle.dumps(content), "run.pickle").devices == ()
        return
    refused(pickle.dumps(content))


def test_every_truncation():
    for end in range(len(GOOD)):
        refused(GOOD[:end])


@given(st.binary(max_size=300))
def test_random_bytes(data):
    refused(data)
    refused(b"\x80\x04" + data)


@given(st.lists(st.tuples(st.integers(2, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes(changes):
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    try:
        assert isinstance(from_bytes(bytes(data), "run.pickle"), Snapshot)
    except InputError:
        refused(bytes(data))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_packed_files(tmp_path, pack):
    path = tmp_path / "run.pickle.packed"
    path.write_bytes(pack(GOOD))
    assert len(read(path).devices[0].timeline) == 3
    path.write_bytes(pack(GOOD)[:-20])
    with pytest.raises(InputError, match="stream is cut short"):
        read(path)
    path.write_bytes(pack(b"\x80\x04" + b"]" * 30_000_000))
    with pytest.raises(InputError, match="more than 16\\.00 MiB"):
        read(path)


def test_files_that_are_no_snapshot(tmp_path):
    path = tmp_path / "empty.pickle"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        read(path)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "nowhere.pickle")
    path.write_bytes(GOOD)
    with pytest.raises(InputError, match="holds more than 100 bytes"):
        read(path, Caps(file_bytes=100))
    with pytest.raises(InputError, match="cannot be read"):
        read("a\0b")


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_file_that_was_not_written_to_its_end_is_said_to_be_cut_short(protocol):
    # In one frame, in several, in none: the process was killed while it wrote, or the copy was stopped.
    many = [event("alloc", addr=BASE + 512 * number) for number in range(3000)]
    for content in (snapshot(traces=[many[:3]]), snapshot(traces=[many])):
        data = pickle.dumps(content, protocol)
        for size in (len(data) // 7, len(data) // 2, len(data) - 300, len(data) - 1):
            assert "is cut short or damaged" in refused(data[:size])


def test_a_gzip_stream_that_was_altered(tmp_path):
    path = tmp_path / "run.pickle.gz"
    packed = gzip.compress(GOOD)
    path.write_bytes(packed[:-8] + bytes(4) + packed[-4:])
    with pytest.raises(InputError, match="check sum does not fit"):
        read(path)
    path.write_bytes(packed + b"and more")
    assert len(read(path).devices[0].timeline) == 3


HUGE = 1 << 60


@pytest.mark.parametrize(
    "content",
    [
        snapshot(traces=[[event("alloc", size=HUGE)] * 3]),
        snapshot(traces=[[event("segment_free", size=HUGE)] * 3]),
        snapshot(traces=[[event("oom", size=HUGE)] * 3]),
        snapshot(traces=[[event("alloc", addr=(1 << 63) - 4096, size=8192)]]),
        snapshot([segment((1 << 63) - 4096, [block((1 << 63) - 4096, 8192)])]),
        snapshot([segment(HUGE * number, [block(HUGE * number, HUGE)]) for number in range(3)]),
    ],
)
def test_memory_that_no_device_has(content):
    # Beyond 2**63 sums would turn negative; 3 x 2**60 are 3 EiB.
    assert "can be used: " in refused(pickle.dumps(content))


def test_a_request_of_one_eib():
    # The most that PyTorch passes on to its allocator is less; a failed request may well be absurd.
    content = snapshot(traces=[[event("oom", size=HUGE - 512, device_free=1 << 62)]])
    events = from_bytes(pickle.dumps(content), "run.pickle").devices[0].timeline
    assert events.size_bytes.tolist() == [HUGE - 512]
    assert not events.free_bytes


def test_a_request_larger_than_its_block():
    content = snapshot([segment(blocks=[block(BASE, 2 << 20) | {"requested_size": HUGE}])])
    [only] = from_bytes(pickle.dumps(content), "run.pickle").devices[0].segments[0].blocks
    assert (only.size, only.requested) == (2 << 20, 2 << 20)


def test_more_devices_than_pytorch_can_have():
    assert "devices" in refused(pickle.dumps(snapshot(traces=[[] for _ in range(129)])))
    assert (
        len(from_bytes(pickle.dumps(snapshot(traces=[[] for _ in range(120)])), "run.pickle").devices) == 120
    )
