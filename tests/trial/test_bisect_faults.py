"""Trials that end otherwise, and searches that are interrupted: nothing is taken for a lack of memory, nothing is lost,
nothing is left running."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from oomph.trial import supervise
from tests.trial.bisecting import bisect, environment, outcomes, settings, words

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and subreapers")


def left(folder):
    """Processes of trials below a folder."""
    found = []
    for path in (folder / "oomph-bisect").glob("*/trial-*"):
        found += supervise.marked(str(path.resolve()))
    return found


def started(folder):
    return [int(line) for line in (folder / "started").read_text().split()]


def search_folder(folder):
    (found,) = (folder / "oomph-bisect").iterdir()
    return found


def test_by_what_is_printed_alone(tmp_path):
    """No PyTorch, no records: the messages and the exit codes decide, and that is said."""
    answer, _ = bisect(tmp_path, "--param batch=8:1 -- --batch {batch}")
    assert (answer["verdict"], answer["setting"]) == ("cause", {"batch": 3})
    assert answer["trials"][0]["phase"] == "backward"
    assert {trial["known_by"] for trial in answer["trials"]} == {"output", "exit code"}
    assert any("by what they printed" in note for note in answer["notes"])


def test_a_crash_is_not_counted(tmp_path):
    """1 crashes: 2 is the least that tells."""
    answer, _ = bisect(tmp_path, "--param batch=8:1 -- --batch {batch} --odd 1 --how crash")
    assert (answer["verdict"], answer["setting"]) == ("cause", {"batch": 3})
    (crashed,) = [trial for trial in answer["trials"] if trial["outcome"] == "crashed"]
    assert crashed["setting"] == {"batch": 1}
    assert "ValueError: the batch has to be even" in crashed["why"]


def test_a_hang_is_ended_with_all_that_it_started(tmp_path):
    answer, _ = bisect(tmp_path, "--timeout 2s --param batch=8,2,1 -- --batch {batch} --odd 1 --how hang")
    assert (answer["verdict"], answer["setting"]) == ("cause", {"batch": 2})
    assert outcomes(answer) == ["oom", "hung", "fits"]
    assert left(tmp_path) == []


def test_nccl_is_tried_once_more_and_not_counted(tmp_path):
    answer, _ = bisect(tmp_path, "--param batch=8,2,1 -- --batch {batch} --odd 1 --how nccl")
    assert outcomes(answer) == ["oom", "communication", "communication", "fits"]
    assert answer["setting"] == {"batch": 2}


def test_a_full_disk_is_not_counted(tmp_path):
    answer, _ = bisect(tmp_path, "--disk 8MiB --param batch=8,2,1 -- --batch {batch} --odd 1 --how fill")
    assert outcomes(answer) == ["oom", "disk", "fits"]
    assert not list(search_folder(tmp_path).rglob("full"))


def test_main_memory_is_not_the_device(tmp_path):
    answer, _ = bisect(
        tmp_path, "--memory 300MiB --param batch=8,2,1 -- --batch {batch} --odd 1 --how memory"
    )
    assert outcomes(answer) == ["oom", "host_oom", "fits"]


def test_a_first_trial_that_fails_otherwise_ends_it(tmp_path):
    answer, _ = bisect(tmp_path, "--param batch=8:1 -- --batch {batch} --odd 8 --how crash", code=1)
    assert answer["verdict"] == "unknown"
    assert len(answer["trials"]) == 1
    answer, _ = bisect(tmp_path, "--param batch=3:1 -- --batch {batch}")
    assert answer["verdict"] == "passes"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_and_gone_on(tmp_path, number):
    """It waits at a batch of 1, the second trial. What has ended is not run again."""
    command = words("--param batch=8:1 -- --batch {batch} --odd 1 --how wait")
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (
            (tmp_path / "started").exists() and started(tmp_path) == [8, 1] and left(tmp_path)
        ):
            time.sleep(0.05)
        assert started(tmp_path) == [8, 1]
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert out == ""
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert "goes on from there" in err
        assert left(tmp_path) == []
    while left(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert left(tmp_path) == []
    lines = (search_folder(tmp_path) / "trials.jsonl").read_text().splitlines()
    assert [json.loads(line)["setting"] for line in lines] == [{"batch": 8}]

    (tmp_path / "go").touch()
    answer, said = bisect(tmp_path, "--param batch=8:1 -- --batch {batch} --odd 1 --how wait")
    assert (answer["verdict"], answer["setting"]) == ("cause", {"batch": 3})
    assert started(tmp_path) == [8, 1, *(value for (value,) in settings(answer, "batch")[1:])]
    assert "trial 1: batch=8: out of memory in backward (kept)" in said


def test_two_at_once_and_another_search(tmp_path):
    command = words("--name one --param batch=8:1 -- --batch {batch} --odd 8 --how wait")
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "started").exists() and time.monotonic() < until:
            time.sleep(0.05)
        _, said = bisect(
            tmp_path, "--name one --param batch=8:1 -- --batch {batch} --odd 8 --how wait", code=2
        )
        assert "goes on in another process" in said
        process.send_signal(signal.SIGINT)
    _, said = bisect(tmp_path, "--name one --param batch=7:1 -- --batch {batch}", code=2)
    assert "another search" in said
    answer, _ = bisect(tmp_path, "--name one --fresh --param batch=7:1 -- --batch {batch}")
    assert answer["setting"] == {"batch": 3}
