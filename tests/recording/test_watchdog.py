from __future__ import annotations

import os
import time

import pytest

from oomph.evidence.run.model import OOM, RANKS, Now, rank_name
from oomph.evidence.run.now import encode_now, now_name
from oomph.phases import Phase
from oomph.probe.model import Gpu, Process
from oomph.recording.neighbours import Neighbours
from oomph.recording.watchdog import Watchdog


def now(phase=Phase.BACKWARD, step=7, ago=3.0, over=False) -> Now:
    return Now(phase, step, time.time() - ago, time.monotonic() - ago, over=over)


@pytest.fixture
def notes():
    return []


def dog(tmp_path, notes, rank=0, world=4, silent=120.0):
    return Watchdog(tmp_path, rank, world, now, notes.append, silent_seconds=silent)


def test_another_ranks_failure_is_noted_once(tmp_path, notes):
    watch = dog(tmp_path, notes)
    watch.poll()
    (tmp_path / OOM / rank_name(2)).mkdir(parents=True)
    (tmp_path / OOM / rank_name(0)).mkdir()  # its own
    (tmp_path / OOM / "something").mkdir()
    (tmp_path / OOM / "rank-²").mkdir()
    watch.poll()
    watch.poll()
    (note,) = notes
    assert (note.code, note.about, note.phase, note.step) == ("watchdog.failed", 2, Phase.BACKWARD, 7)
    assert "rank 2 failed" in note.text
    assert "backward of step 7 since 3.0 s" in note.text


def test_a_failure_of_an_earlier_attempt_is_none(tmp_path, notes):
    folder = tmp_path / OOM / rank_name(2)
    folder.mkdir(parents=True)
    os.utime(folder, (1000.0, 1000.0))
    dog(tmp_path, notes).poll()
    assert notes == []


def standing(tmp_path, places, ages):
    (tmp_path / RANKS).mkdir(exist_ok=True)
    for rank, (place, age) in enumerate(zip(places, ages, strict=True)):
        path = tmp_path / now_name(rank)
        path.write_bytes(encode_now(place))
        moment = time.time() - age
        os.utime(path, (moment, moment))


def silent(tmp_path, notes, places, ages):
    standing(tmp_path, places, ages)
    watch = dog(tmp_path, notes, world=len(places), silent=60.0)
    watch._next_look = 0.0
    watch.poll()
    watch._next_look = 0.0
    watch.poll()
    return [(note.code, note.about) for note in notes]


def test_the_rank_that_is_behind_when_all_stand_still(tmp_path, notes):
    places = [now(), now(), now(Phase.FORWARD), now()]
    assert silent(tmp_path, notes, places, [100] * 4) == [("watchdog.silent", 2)]
    assert "Rank 2 began or ended no phase for 100 s, in forward of step 7; nobody does" in notes[0].text


def test_the_rank_that_stands_still_while_others_go_on(tmp_path, notes):
    places = [now(step=9), now(step=7), now(step=9)]
    assert silent(tmp_path, notes, places, [1, 100, 1]) == [("watchdog.silent", 1)]
    assert "the others go on" in notes[0].text


def test_all_stand_still_alike(tmp_path, notes):
    assert silent(tmp_path, notes, [now(), now()], [100, 100]) == [("watchdog.silent", None)]
    assert "all ranks stand still" in notes[0].text


def test_nobody_stands_still(tmp_path, notes):
    assert silent(tmp_path, notes, [now(), now()], [1, 2]) == []


def test_a_thousand_ranks_look_less_often(tmp_path, notes):
    assert dog(tmp_path, notes, world=4).interval == 0.5
    assert dog(tmp_path, notes, world=1024).interval == 8.0


class FakeMachine:
    def __init__(self):
        self.processes: tuple[Process, ...] = ()

    def gpus(self, ours=()):
        marked = tuple(
            Process(one.pid, one.used_bytes, one.name, ours=one.pid in ours) for one in self.processes
        )
        return (Gpu(0, "GPU-1", processes=marked),)

    def host(self, pids=()):
        raise AssertionError

    def source(self):
        return "nvml"

    def why(self):
        return ""


def test_neighbours_are_named_when_they_appear(notes):
    machine, said = FakeMachine(), []
    look = Neighbours(machine, [10], notes.append, said.append, lambda _what: True).look
    gib = 1 << 30
    machine.processes = (Process(10, gib, "python"), Process(20, 2 * gib, "python"))
    look()
    machine.processes += (Process(30, None, "vllm"), Process(40, 1 << 20, "Xorg"))
    look()
    look()
    machine.processes += (Process(40, 3 * gib, "Xorg"),)
    look()
    assert [note.about for note in notes] == [20, 30, 40]
    assert all(note.code == "neighbour" for note in notes)
    assert "was there when the recording began on GPU 0 with 2.00 GiB" in notes[0].text
    assert said == [notes[1].text, notes[2].text]
    assert "process 30 (vllm)" in said[0]
    assert notes[2].numbers == {"used_bytes": 3 * gib}
