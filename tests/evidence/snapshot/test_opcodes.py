"""The look at a pickle's opcodes: its two ways stop at the same byte, and nothing behind that byte is handed out."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hatch_build
from oomph.errors import InputError
from oomph.evidence.snapshot import Caps, opcodes, pattern, scan
from tests.evidence.snapshot import walks


@pytest.fixture(scope="module")
def walked():
    return walks.walked()


def test_the_pattern_stops_where_the_walk_stops(walked):
    for number, (data, expected) in enumerate(zip(walks.pickles(), walked, strict=True)):
        look = pattern.PatternLook(walks.SIZES[number % len(walks.SIZES)])
        assert walks.stops(look, data) == expected, (number, data[:200])


def test_the_compiled_walk_stops_where_the_walk_in_python_stops(root, tmp_path, walked):
    try:
        files = hatch_build.compiled(root)
    except (OSError, subprocess.SubprocessError):
        files = {}  # no compiler: the wheel is pure, and so is this comparison
    copy = tmp_path / "src"
    shutil.copytree(root / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for place, path in files.items():
        shutil.copy2(path, copy / place)
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.snapshot.walks"],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(copy)},
    )
    printed = json.loads(done.stdout)
    assert printed["file"].startswith(str(copy))
    assert printed["compiled"] == bool(files)
    assert printed["stops"] == walked
    assert [tuple(each) for each in printed["shared"]] == walks.shared()


def test_sharing_stops_where_the_walk_stops():
    for data, (at, _) in zip(walks.pickles(), walks.shared(), strict=True):
        assert at == scan.whole(data, 2, 1000)


def events(count: int) -> list[dict[str, object]]:
    """As PyTorch writes them: sizes of every length, stacks shared by some, texts of their own in others."""
    frames = [{"name": f"f{i}", "filename": "a.py", "line": i} for i in range(300)]
    sizes = (5, 300, 70_000, 1 << 40, 1 << 62)
    trace: list[dict[str, object]] = []
    for number in range(count):
        stack = trace[-1]["frames"] if number % 7 == 6 else frames[number % 250 : number % 250 + number % 9]
        one = {"action": "alloc", "addr": (1 << 46) + number, "size": sizes[number % 5], "stream": 0}
        trace.append({**one, "context": f"{number:04}", "pool_id": (0, number % 3), "frames": stack})
    return trace


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_pattern_that_learned_how_events_are_spelled_stops_at_the_same_bytes(monkeypatch, protocol):
    monkeypatch.setattr(pattern, "_FIRST", 20_000)
    data = pickle.dumps({"first": list(range(300)), "device_traces": [events(1500)]}, protocol)
    rng = random.Random(protocol)
    look = pattern.PatternLook(len(data))
    assert look(data, 2) == len(data) - 1
    assert look._usual
    plain = opcodes.compiled_look(len(data))
    for _ in range(600):
        piece = bytearray(data[-rng.randrange(100, 3000) :])
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            piece[rng.randrange(len(piece))] = rng.randrange(256)
        assert walks.stops(look, bytes(piece)) == walks.stops(plain, bytes(piece))


def test_what_is_learned_is_learned_again(monkeypatch):
    """Blocks come before events, and are spelled in another way."""
    monkeypatch.setattr(pattern, "_FIRST", 10_000)
    blocks = [{"address": 1 << 46 | i, "size": 512, "state": "inactive", "more": (1, 2)} for i in range(2000)]
    data = pickle.dumps({"segments": blocks, "device_traces": [events(20_000)]}, 4)
    look = pattern.PatternLook(len(data))
    found = []
    at = 2
    while at < len(data) - 1:
        at += look(data[at : at + 30_000], 0)
        found.append(look._usual)
    assert len(set(found)) == 2
    assert b"" not in (found[1], found[-1])
    assert at == len(data) - 1


@given(st.binary(max_size=60), st.sampled_from(walks.SIZES))
def test_both_ways_on_any_bytes(data, size):
    assert walks.stops(pattern.PatternLook(size), data) == walks.stops(opcodes.compiled_look(size), data)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_against_pickletools(protocol):
    """A look from the start of any opcode gets as far as pickletools sees allowed ones."""
    data = pickle.dumps(walks.content() | {"numbers": [1, 1 << 40], "texts": ["", "short"]}, protocol)
    places = [place or 0 for _, _, place in pickletools.genops(data)]
    end = places[-1]  # STOP
    for look in (pattern.PatternLook(len(data)), opcodes.compiled_look(len(data))):
        at = look(data, places[1])
        while at != end:
            assert data[at : at + 1] == b"X"  # BINUNICODE, which is left to `Plain`
            at = look(data, places[places.index(at) + 1])


@pytest.mark.parametrize("size", walks.SIZES)
def test_the_largest_index_that_is_let_through(size):
    most = pattern.highest(size)
    assert most >= min(size, (1 << 32) - 1)
    assert most < max(2 * size, 256) or size >= 1 << 24
    for look in (pattern.PatternLook(size), opcodes.compiled_look(size)):
        for code, rest in ((b"r", b""), (b"\x95", b"\0\0\0\0")):
            within = code + struct.pack("<I", most) + rest + b"N"
            assert look(within, 0) == len(within)
            if most + 1 < 1 << 32:
                assert look(code + struct.pack("<I", most + 1) + rest + b"N", 0) == 0


def test_no_table_names_an_opcode_that_calls_or_reserves():
    names = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
    allowed = {names[code] for code, step in enumerate(scan.STEPS) if step}
    assert allowed.isdisjoint(opcodes._RUNS_CODE)
    assert not {
        name for name in allowed if "BYTES" in name or "BUFFER" in name or name in ("PUT", "GET", "DUP")
    }


def handed_out(data: bytes, size: int | None = None) -> bytes:
    return opcodes.Plain(io.BytesIO(data), len(data) if size is None else size, "run.pickle", Caps()).read()


@pytest.mark.parametrize("piece", [300, 301, 1000, 70_100, 1 << 18])
@pytest.mark.parametrize("protocol", [2, 4])
def test_pieces_of_any_length(monkeypatch, piece, protocol):
    monkeypatch.setattr(opcodes, "_PIECE", piece)
    data = pickle.dumps(walks.content() | {"numbers": [5]}, protocol)
    assert handed_out(data + b"whatever follows") == data


def test_a_file_that_gives_a_few_bytes_at_a_time():
    class Slow(io.BytesIO):
        def read(self, size=-1, /):
            return super().read(min(size, 3))

    data = pickle.dumps({"a": [1, 2, {"b": "c" * 400}]})
    assert opcodes.Plain(Slow(data), len(data), "run.pickle", Caps()).read() == data


def test_nothing_is_handed_out_from_the_refused_opcode_on():
    begin = pickle.dumps([["x" * 200, i] for i in range(5000)], 4)[:-1]
    data = begin + b"cos\nsystem\n(X\x04\x00\x00\x00truetR." + b"." * 400
    file = opcodes.Plain(io.BytesIO(data), len(data), "run.pickle", Caps())
    got: list[bytes] = []
    with pytest.raises(InputError, match=rf"GLOBAL at byte {len(begin)}"):
        got.extend(iter(lambda: file.read(1000), b""))
    assert begin.startswith(b"".join(got))


def test_a_file_that_grows_is_read_up_to_its_size():
    data = pickle.dumps([1, 2, 3])
    with pytest.raises(InputError, match="cut short"):
        handed_out(data, len(data) - 1)
    assert handed_out(data + data, len(data)) == data


def test_real_snapshots_both_ways(root):
    folder = Path(os.environ.get("OOMPH_CONFORMANCE") or root.parent / "shared") / "snapshots"
    for path in sorted(folder.glob("*.pickle")):  # none where the folder is not there
        size = path.stat().st_size
        data = path.read_bytes()[-200_000:] if path.name.startswith("tiny") else path.read_bytes()[:200_000]
        looks = pattern.PatternLook(size), opcodes.compiled_look(size)
        assert walks.stops(looks[0], data) == walks.stops(looks[1], data)
