"""Stacks shared while a file is read: what the snapshot says, and whether it is refused, is as without sharing."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.errors import InputError
from oomph.evidence.snapshot import Caps, Snapshot
from oomph.evidence.snapshot.opcodes import Plain
from oomph.evidence.snapshot.read import from_file
from oomph.evidence.snapshot.unpickle import unpickle
from tests.evidence.snapshot.build import BASE, FRAMES, block, event, segment, snapshot
from tests.evidence.snapshot.test_hostile import GOOD

OTHERS = [{"name": f"f{i}", "filename": "b.py", "line": i} for i in range(400)]


def told(result: Snapshot) -> list[Any]:
    """All that a snapshot says, as plain values."""
    devices = []
    for device in result.devices:
        events = device.timeline
        stacks = events.stacks
        columns = (events.kind, events.address, events.size_bytes, events.time_us, events.stream, events.pool)
        devices.append(
            [
                [column.tolist() for column in columns],
                [stacks.frames(number) for number in events.stack_id.tolist()],
                {address: stacks.frames(number) for address, number in device.block_stacks.items()},
                (events.pools, dict(events.free_bytes), events.frame_lists is None),
                [(each.key(), [each.key() for each in each.blocks]) for each in device.segments],
            ]
        )
    return [devices, result.era, result.conf_text, str(dict(result.conf)), result.annotations, result.notes]


def either(data: bytes, *, share: bool) -> list[Any] | str:
    """What the file says, or the sentence that refuses it."""
    try:
        return told(from_file(io.BytesIO(data), len(data), "run.pickle", share=share))
    except InputError as error:
        return str(error)


def same(data: bytes) -> list[Any] | str:
    shared = either(data, share=True)
    assert shared == either(data, share=False)
    return shared


def job(events: int = 400) -> dict[str, Any]:
    rng = random.Random(3)
    stacks = [rng.sample(OTHERS, rng.randint(1, 20)) for _ in range(12)]
    trace = [event("alloc", addr=BASE + 512 * i, frames=list(rng.choice(stacks))) for i in range(events)]
    trace[7]["frames"] = trace[5]["frames"]
    blocks = [block(BASE, 512, frames=list(stacks[0])), block(BASE + 512, 2096640, "inactive")]
    return snapshot([segment(blocks=blocks)], [trace, [event("free_requested", frames=list(stacks[1]))]])


def loaded(data: bytes) -> Any:
    return unpickle(io.BytesIO(data), len(data), "run.pickle", share=True)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_job(protocol):
    assert not isinstance(same(pickle.dumps(job(), protocol)), str)


def test_equal_stacks_are_one_tuple():
    trace = loaded(pickle.dumps(job(), 4))["device_traces"][0]
    shared = {id(each["frames"]) for each in trace if type(each["frames"]) is tuple}
    assert 0 < len(shared) <= 12
    assert sum(type(each["frames"]) is tuple for each in trace) > 300


def test_the_rewritten_pickle_is_smaller_and_not_longer_than_the_file():
    data = pickle.dumps(job(5000), 4)
    assert len(Plain(io.BytesIO(data), len(data), "run.pickle", Caps(), share=True).read()) < len(data)


@pytest.mark.parametrize("items", [998, 999, 1000, 1001, 1999, 2000, 2001, 3000])
def test_lists_that_picklers_write_in_parts(items):
    """Three lists that begin alike and end differently, and one that is the first again."""
    begin = (OTHERS * 8)[:items]
    lists = [begin, [*begin, OTHERS[1]], [*begin, *OTHERS[2:9]], list(begin)]
    trace = [event("alloc", frames=list(OTHERS)), *(event("alloc", frames=each) for each in lists)]
    for dumps in (pickle.dumps, pickle._dumps):  # type: ignore[attr-defined]
        assert not isinstance(same(dumps(snapshot(traces=[trace]), 4)), str)


@given(st.lists(st.tuples(st.integers(2, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes(changes):
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    same(bytes(data))


def test_damaged_jobs():
    rng = random.Random(5)
    good = pickle.dumps(job(60), 4)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.choice((1, 2, 4))):
            data[rng.randrange(2, len(data))] = rng.choice((rng.randrange(256), *b"he(t]}u\x94aj\x85"))
        same(bytes(data))


#: Memo: 0 a frame, 1 another, 2 and 3 stacks of both, spelled alike.
BEGIN = b"\x80\x04}\x94}\x94(]\x94(h\x00h\x01e]\x94(h\x00h\x01e"


@pytest.mark.parametrize(
    "code",
    [
        b"h\x00ah\x02.",  # the second list gets one item more
        b"(h\x00h\x01eh\x02.",  # and two
        b"K\x00h\x01sh\x02.",  # its first item is replaced
        b"}(h\x03Nu.",  # a list as a key
        b"}h\x02Ns.",
        b"h\x02h\x00a.",  # the first list, from the memo
        b"\x86.",
        b"h\x09.",
        b"]\x94(h\x00h\x04e.",  # a list with itself in it
        b"]\x94(h\x00h\x05e.",
        b"]q\x09(h\x00h\x01eh\x09.",  # memo numbers of its own
        b"q\x02h\x02.",
        b"r\x02\x00\x00\x00]\x94(h\x00h\x01e.",
    ],
)
def test_lists_that_are_used_otherwise(code):
    """As bare pickles and where the stacks of events would be; the memo number 0 is a dict in all of them."""
    same(BEGIN + code)
    names = b"\x8c\x08segments]\x8c\x0ddevice_traces](}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x00\x8c\x04sizeK\x01"
    same(b"\x80\x04}\x94}\x94}(" + names + b"\x8c\x06frames]\x94(h\x00h\x01e" + code[:-1] + b"u" + b"eu.")
    same(b"\x80\x04}\x94}\x94}(" + names + b"\x8c\x06frames]\x94(h\x00h\x01eu" + code[:-1] + b"eu.")


@pytest.mark.parametrize(
    "place", ["segments", "device_traces", "external_annotations", "allocator_settings", "x"]
)
def test_lists_of_known_dicts_in_other_places(place):
    frame = {"name": "f", "filename": "a.py", "line": 1}
    known = [event("alloc", frames=[frame, frame])]
    content = {"first": [frame, frame], "again": [frame, frame], **snapshot(traces=[known])}
    content[place] = [frame, frame]
    same(pickle.dumps(content, 4))
    content[place] = [[frame, frame], [frame, frame]]
    same(pickle.dumps(content, 4))


def test_an_event_that_names_another_ones_stack():
    content = job(50)
    content["device_traces"][0][9] = content["device_traces"][0][3]
    content["device_traces"][1][0]["compile_context"] = content["device_traces"][0][3]["frames"]
    assert not isinstance(same(pickle.dumps(content, 4)), str)


def test_lists_beyond_what_is_remembered(monkeypatch):
    from oomph.evidence.snapshot import scan

    monkeypatch.setattr(scan, "_ROOM", 400)
    assert not isinstance(same(pickle.dumps(job(), 4)), str)


def test_memo_numbers_of_four_bytes():
    many = [{"name": "g", "filename": "c.py", "line": i} for i in range(70_000)]
    trace = [event("alloc", frames=[*many[-3:], *FRAMES]) for _ in range(5)]
    data = pickle.dumps({"first": many, **snapshot(traces=[trace])}, 4)
    # Before the last dict: the outer one, "first", the list, the first dict with its five texts, 69,998 dicts.
    assert b"j" + struct.pack("<I", 70_007) in data
    assert not isinstance(same(data), str)


def test_real_snapshots(root):
    folder = Path(os.environ.get("OOMPH_CONFORMANCE") or root.parent / "shared") / "snapshots"
    for name in (
        "tiny-from-empty",
        "grad-profile",
        "unet-single-step",
    ):  # small ones, where the folder is there
        path = folder / f"{name}.pickle"
        if path.is_file():
            assert not isinstance(same(path.read_bytes()), str)
