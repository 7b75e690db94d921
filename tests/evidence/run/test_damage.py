"""Run directories as kills, full disks and strangers leave them."""

from __future__ import annotations

import io
import os
import random
import re
from typing import ClassVar

import msgspec
import pytest

from oomph.evidence.run.data import Outcome
from oomph.evidence.run.model import Record
from oomph.evidence.run.read import is_run, read_run
from oomph.evidence.run.records import Lines
from oomph.phases import Phase
from tests.evidence.run.making import GIB, Maker, plain


def dead(header) -> bool:
    return False


def test_a_kill_costs_the_record_that_was_being_written(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    whole = read_run(tmp_path, alive=dead).ranks[0]
    made.raw(0, b'{"type":"phase","phase":"forward","st')
    run = read_run(tmp_path, alive=dead)
    assert run.ranks[0].phases == whole.phases
    assert run.ranks[0].damaged == 0
    assert any("last record is not whole" in note for note in run.notes)


def test_every_cut_of_a_file_is_read(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    made.oom(0, Phase.FORWARD, 1, message="CUDA out of memory")
    made.end(0, "oom")
    path = tmp_path / "ranks/rank-00000.jsonl"
    data = path.read_bytes()
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        read_run(tmp_path, alive=dead)


def test_a_host_that_crashed_leaves_zeros(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.raw(0, b"\0" * 4096)
    run = read_run(tmp_path, alive=dead)
    assert run.ranks[0].outcome is Outcome.KILLED
    assert len(run.ranks[0].headers) == 1


def test_a_newer_oomph_s_records_are_passed_over_and_counted(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.raw(0, plain(type="weather", temperature=21))
    made.raw(
        0, plain(type="step", step=0, time=1.0, clock=200.0, seconds=1.0, counters={"new_bytes": 1}, more=[1])
    )
    made.raw(0, plain(type="phase", phase="dreaming", step=1, time=1, clock=201, seconds=1, counters={}))
    run = read_run(tmp_path, alive=dead)
    rank = run.ranks[0]
    assert (rank.unknown, rank.damaged, len(rank.steps)) == (1, 0, 1)
    assert [one.phase for one in rank.phases] == [Phase.UNKNOWN]
    assert any("kinds that are not known" in note for note in run.notes)


def test_a_newer_version_is_said(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    (tmp_path / "run.json").write_bytes(plain(version=7, id="x", started=1.0, oomph="9.9", shape="round"))
    assert any("newer oomph (9.9" in note for note in read_run(tmp_path, alive=dead).notes)


def test_without_run_json_the_ranks_are_a_run(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    (tmp_path / "run.json").unlink()
    assert is_run(tmp_path)
    run = read_run(tmp_path, alive=dead)
    assert any("run.json is missing" in note for note in run.notes)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000 + b"\n",
        b'{"type":"step","step":' + b"9" * 5000 + b"}\n",
        b'{"type":"phase","phase":' + b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"}\n",
        b'{"type":"step","step":1e999,"time":NaN}\n',
        b'{"type":["step"]}\n',
        b'{"type":"header"}\n',
        b'"step"\nnull\n17\n',
        b"\xff\xfe\x00\n",
        b'{"type":"end","outcome":"\xed\xa0\x80","time":1,"clock":1}\n',
    ],
)
def test_hostile_lines_cost_themselves(tmp_path, line):
    made = Maker(tmp_path)
    made.begin(0)
    made.raw(0, line)
    made.step(0, 0)
    rank = read_run(tmp_path, alive=dead).ranks[0]
    assert len(rank.steps) == 1
    assert rank.damaged + rank.unknown >= 1


def test_a_line_without_end_is_not_held(monkeypatch):
    monkeypatch.setattr("oomph.evidence.run.records.MOST_LINE_BYTES", 1000)
    good = plain(type="end", outcome="completed", time=1, clock=1)
    lines: Lines[Record] = Lines(io.BytesIO(b"x" * 10_500 + b"\n" + good))
    assert [type(one).__name__ for one in lines.records()] == ["End"]
    assert lines.damaged == 1


def test_damaged_json_files_are_notes(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    for name in ("run.json", "end.json", "fingerprint/rank-00000.json"):
        made.text(name, '{"version":1,"started":')
    made.text("gpus/host.jsonl", "nonsense\n{}\n")
    made.text("ranks/rank-00000.now", "   ")
    run = read_run(tmp_path, alive=dead)
    assert sum("is damaged" in note for note in run.notes) == 3
    assert (run.end, run.fingerprints, run.gpus["host"]) == (None, {}, ())


def test_files_that_are_something_else(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    (tmp_path / "ranks/rank-00001.jsonl").mkdir()
    (tmp_path / "ranks/rank-00002.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "ranks/rank-00003.jsonl")
    made.text("ranks/rank-00004.jsonl", "")
    made.text("ranks/notes.txt", "mine")
    made.text("oom/rank-00000", "a file where a folder belongs")
    run = read_run(tmp_path, alive=dead)
    assert sorted(run.ranks) == [0, 1, 2, 3, 4]
    assert [run.ranks[rank].outcome for rank in (1, 2, 3, 4)] == [Outcome.UNKNOWN] * 4


def test_a_rank_that_calls_itself_another(tmp_path):
    made = Maker(tmp_path)
    made.begin(5)
    (tmp_path / "ranks/rank-00005.jsonl").rename(tmp_path / "ranks/rank-00003.jsonl")
    run = read_run(tmp_path, alive=dead)
    assert sorted(run.ranks) == [3]
    assert any("its records call it rank 5" in note for note in run.notes)


def test_a_world_that_cannot_be_is_not_counted_out(tmp_path):
    made = Maker(tmp_path, world=10**15)
    made.begin(0)
    assert len(read_run(tmp_path, alive=dead).missing) < 10**6


def test_random_bytes(tmp_path):
    source = random.Random(6)
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0, peak=3 * GIB)
    data = bytearray((tmp_path / "ranks/rank-00000.jsonl").read_bytes())
    for _ in range(300):
        bad = bytearray(data)
        for _ in range(source.randint(1, 30)):
            bad[source.randrange(len(bad))] = source.randrange(256)
        (tmp_path / "ranks/rank-00000.jsonl").write_bytes(bytes(bad))
        read_run(tmp_path, alive=dead)


def test_a_run_may_be_read_through_any_object_that_lists_and_opens():
    header = {
        "type": "header",
        "version": 1,
        "rank": 0,
        "world_size": 1,
        "local_rank": 0,
        "pid": 1,
        "host": "h",
    }

    class Memory:
        path = "memory://run"
        content: ClassVar = {
            "run.json": plain(version=1, id="x", started=1.0),
            "ranks/rank-00000.jsonl": msgspec.json.encode({**header, "time": 1.0, "clock": 1.0}) + b"\n",
        }

        def open(self, name):
            if name not in self.content:
                raise FileNotFoundError(2, "no such file", name)
            return io.BytesIO(self.content[name])

        def ls(self, folder):
            inner = [name[len(folder) :].strip("/") for name in self.content if name.startswith(folder)]
            return sorted({name.split("/")[0] for name in inner if name})

        def size(self, name):
            return len(self.content[name]) if name in self.content else None

    run = read_run(Memory())
    assert (run.path, sorted(run.ranks), run.run.id) == ("memory://run", [0], "x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("peak_allocated_bytes", b"-1"),
        ("allocated_bytes", b"9223372036854775807"),
        ("reserved_bytes", b"1" + b"0" * 60),
        ("seconds", b"1e308"),
        ("time", b"-1e308"),
    ],
)
def test_what_nobody_can_have_measured_is_damage(tmp_path, field, value):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    file = tmp_path / "ranks/rank-00000.jsonl"
    header, *rest = file.read_bytes().splitlines(keepends=True)
    rest = [re.sub(rb'("%s":)[^,}]+' % field.encode(), rb"\g<1>" + value, line) for line in rest]
    changed = sum(b'"%s":%s' % (field.encode(), value) in line for line in rest)
    file.write_bytes(header + b"".join(rest))
    run = read_run(tmp_path, alive=dead)
    assert changed > 0
    assert run.ranks[0].damaged == changed


def test_a_rank_without_records_leaves_the_outcome_open_unless_the_command_reported_success(tmp_path):
    made = Maker(tmp_path, world=2)
    made.begin(0)
    made.end(0, "completed")
    assert read_run(tmp_path, alive=dead).outcome is Outcome.UNKNOWN
    made.finish(0)
    assert read_run(tmp_path, alive=dead).outcome is Outcome.COMPLETED
