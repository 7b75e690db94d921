from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from oomph.evidence.run.model import RUN, VERSION, Header, Note, Now, Run
from oomph.evidence.run.now import NOW_BYTES, decode_now, encode_now, now_name
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from oomph.recording.where import LAUNCHES, Rank, run_directory
from oomph.recording.writer import Writer, create_once


def note(number: int) -> Note:
    return Note("user", f"note {number}", 1000.0 + number, float(number))


@pytest.fixture
def said():
    return []


@pytest.fixture
def writer(tmp_path, said):
    one = Writer(tmp_path / "run", 3, said.append)
    yield one
    one.close()


def lines(writer: Writer) -> list[bytes]:
    assert writer.path is not None
    return writer.path.read_bytes().splitlines()


def test_each_record_is_a_line_that_is_there_at_once(writer, said):
    for number in range(3):
        assert writer.write(note(number))
        assert len(lines(writer)) == number + 1
    assert [msgspec.json.decode(line)["text"] for line in lines(writer)] == ["note 0", "note 1", "note 2"]
    assert writer.path.name == "rank-00003.jsonl"
    assert (writer.lost, said) == (0, [])


def test_a_second_attempt_appends_and_leaves_a_torn_line_behind(tmp_path, said):
    first = Writer(tmp_path, 0, said.append)
    first.write(note(1))
    first.close()
    with first.path.open("ab") as file:
        file.write(b'{"type":"note","co')  # killed in the middle of a write
    second = Writer(tmp_path, 0, said.append)
    second.write(note(2))
    second.write(note(3))
    second.close()
    rank = read_run(tmp_path).ranks[0]
    assert [one.text for one in rank.notes] == ["note 1", "note 2", "note 3"]
    assert rank.damaged == 1


def test_a_full_disk_loses_records_and_is_said_once(writer, said, monkeypatch):
    real = os.write
    full = [True]

    def write(file, data):
        if full[0] and data.startswith((b"{", b"\n")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    writer.write(note(0))
    monkeypatch.setattr(os, "write", write)
    full[0] = True
    assert not writer.write(note(1))
    assert not writer.write(note(2))
    full[0] = False  # somebody made room
    assert writer.write(note(3))
    assert writer.lost == 2
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert [one.text for one in writer.held] == ["note 0", "note 1", "note 2", "note 3"]
    assert [msgspec.json.decode(line)["text"] for line in lines(writer)] == ["note 0", "note 3"]


def test_a_record_cut_off_by_a_full_disk_spoils_no_other(writer, said, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    assert not writer.write(note(1))
    monkeypatch.setattr(os, "write", real)
    assert writer.write(note(2))
    whole = [line for line in lines(writer) if line.endswith(b"}")]
    assert [msgspec.json.decode(line)["text"] for line in whole] == ["note 2"]
    assert writer.lost == 1
    assert "cut off" in said[0]


def test_a_limit_on_file_size_does_not_kill_the_job(tmp_path):
    """The kernel's own refusal, in a process of its own."""
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from oomph.evidence.run.model import Note\n"
        "from oomph.recording.writer import Writer\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        f"writer = Writer(Path({str(tmp_path)!r}), 0, print)\n"
        "for number in range(100):\n"
        "    writer.write(Note('user', 'x' * 50, float(number), float(number)))\n"
        "writer.close()\n"
        "print('went on', writer.lost)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *sentences, last = done.stdout.splitlines()
    assert last.startswith("went on ")
    assert int(last.split()[-1]) > 50
    assert len(sentences) in (1, 2)  # one cut off, the others refused
    rank = read_run(tmp_path).ranks[0]
    assert 0 < len(rank.notes) < 50


def test_a_folder_that_cannot_be_made(tmp_path, said):
    (tmp_path / "file").write_text("no folder")
    writer = Writer(tmp_path / "file" / "run", 0, said.append)
    assert not writer.write(note(1))
    assert not writer.write(note(2))
    writer.now(Now(Phase.LOAD, -1, 0.0, 0.0))
    writer.flush()
    writer.close()
    assert len(said) == 1
    assert "kept in memory only" in said[0]
    assert len(writer.held) == 2
    assert writer.lost == 2


def test_a_folder_that_vanishes(tmp_path, writer, said):
    writer.write(note(1))
    shutil.rmtree(tmp_path / "run")
    writer.flush()
    assert not writer.write(note(2))
    writer.flush()
    assert len(said) == 1
    assert "is gone" in said[0]
    assert len(writer.held) == 2


def test_without_a_folder_records_are_held(said):
    writer = Writer(None, 0, said.append)
    assert not writer.write(note(1))
    assert (len(writer.held), writer.lost, said) == (1, 0, [])


def test_a_forked_child_writes_nothing(writer):
    writer.write(note(1))
    child = os.fork()
    if child == 0:
        try:
            writer.write(note(2))
            writer.now(Now(Phase.SAVE, 9, 0.0, 0.0))
            writer.flush()
            writer.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert writer.write(note(3))
    assert [msgspec.json.decode(line)["text"] for line in lines(writer)] == ["note 1", "note 3"]


def test_what_a_rank_is_doing_is_written_over(tmp_path, writer):
    path = tmp_path / "run" / now_name(3)
    writer.now(Now(Phase.FORWARD, 5, 10.0, 1.0, where="a long name of a place" * 3))
    writer.now(Now(Phase.BACKWARD, 5, 11.0, 2.0))
    assert path.stat().st_size == NOW_BYTES
    assert decode_now(path.read_bytes()) == Now(Phase.BACKWARD, 5, 11.0, 2.0)


@pytest.mark.parametrize("data", [b"", b"\0" * 320, b'{"phase":"fly"}', b'{"phase":"load"', b"[" * 100_000])
def test_a_file_of_that_which_says_nothing(data):
    assert decode_now(data) is None


def test_a_place_that_is_too_long_is_left_out():
    now = Now(Phase.FORWARD, 5, 10.0, 1.0, where="x" * 1000)
    line = encode_now(now)
    assert len(line) == NOW_BYTES
    assert decode_now(line) == Now(Phase.FORWARD, 5, 10.0, 1.0)


def test_killed_at_any_moment_all_but_the_last_record_are_there(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from oomph.evidence.run.model import Note, Now\n"
        "from oomph.phases import Phase\n"
        "from oomph.recording.writer import Writer\n"
        f"writer = Writer(Path({str(tmp_path)!r}), 0, print)\n"
        "number = 0\n"
        "while True:\n"
        "    writer.now(Now(Phase.BACKWARD, number, 0.0, 0.0))\n"
        "    writer.write(Note('user', str(number), float(number), float(number)))\n"
        "    sys.stdout.write(f'{number}\\n')\n"
        "    sys.stdout.flush()\n"
        "    number += 1\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.2)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().splitlines()
    child.stdout.close()
    child.wait()
    told = int(rest[-1]) if rest and rest[-1].isdigit() else 0
    *whole, _last = (tmp_path / "ranks" / "rank-00000.jsonl").read_bytes().split(b"\n")
    numbers = [int(msgspec.json.decode(line)["text"]) for line in whole]
    assert numbers == list(range(len(numbers)))
    assert numbers[-1] >= told - 1
    now = decode_now((tmp_path / now_name(0)).read_bytes())
    assert now is not None
    assert now.step in (numbers[-1], numbers[-1] + 1)


def test_a_thousand_ranks_in_one_folder(tmp_path, said):
    """Each from a thread among sixteen, in any order: one run.json, a file for each rank, nothing lost."""

    def rank(number: int) -> bool:
        directory = run_directory(
            {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}, Rank(number, 1024), name="x", runs=tmp_path
        )
        header = Header(VERSION, number, 1024, number % 8, 1, f"node{number // 8}", 1000.0, 1.0)
        run = Run(version=VERSION, id=directory.name, started=1000.0 + number, world_size=1024)
        first = create_once(directory / RUN, msgspec.json.encode(run))
        writer = Writer(directory, number, said.append)
        writer.write(header)
        writer.now(Now(Phase.FORWARD, number % 7, 1000.0, 1.0))
        for position in range(3):
            writer.write(note(position))
        writer.close()
        return first

    with ThreadPoolExecutor(16) as pool:
        firsts = list(pool.map(rank, range(1024)))
    assert sum(firsts) == 1
    assert said == []
    (directory,) = [path for path in tmp_path.iterdir() if path.name != LAUNCHES]
    data = read_run(directory)
    assert data.run.started == 1000.0 + firsts.index(True)
    assert sorted(data.ranks) == list(range(1024))
    assert all(len(one.notes) == 3 and one.damaged == 0 for one in data.ranks.values())


def test_whoever_comes_first_writes_it(tmp_path):
    path = tmp_path / "deep" / "run.json"
    assert create_once(path, b"first")
    assert not create_once(path, b"second")
    assert path.read_bytes() == b"first"
