"""The supervisor: how memory and disk are counted, and that a killed one leaves nothing running."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from oomph.trial import supervise
from oomph.trial.engine import Finished, Task
from oomph.trial.engines.local import LocalEngine
from oomph.trial.model import Limits
from oomph.trial.supervised import mark_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and subreapers")


@pytest.fixture
def engine():
    made = LocalEngine()
    yield made
    made.close()


def task(folder: Path, *command: str, **limits) -> Task:
    place = folder / "task"
    place.mkdir()
    return Task("task", command, place, place, limits=Limits(**limits))


def end(engine: LocalEngine) -> Finished:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = engine.finished(1.0)
        if found:
            return found[0]
    raise AssertionError("it did not end")


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until_there(count, wanted: int) -> None:
    until = time.monotonic() + 30
    while count() != wanted and time.monotonic() < until:
        time.sleep(0.02)
    assert count() == wanted


def test_pages_that_processes_share_count_once(engine, tmp_path):
    # Five processes that share the same 100 MB after a fork, in a limit of 300 MB, for longer than two looks.
    program = (
        "import os, time\n"
        "x = bytearray(b'x') * 100_000_000\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(1.2); os._exit(0)\n"
        "for _ in range(4): os.wait()\n"
    )
    engine.start(task(tmp_path, sys.executable, "-c", program, memory_bytes=300_000_000))
    ended = end(engine)
    assert (ended.stopped, ended.exit_code) == ("", 0)


def test_a_sparse_file_holds_no_disk(engine, tmp_path):
    program = "import time; open('f', 'wb').truncate(1 << 40); time.sleep(1.2)"
    engine.start(task(tmp_path, sys.executable, "-c", program, disk_bytes=20_000_000))
    assert end(engine).stopped == ""


def test_a_stopped_process_is_ended_too(engine, tmp_path):
    engine.start(task(tmp_path, "sh", "-c", "kill -STOP $$", seconds=0.3))
    assert end(engine).stopped == "seconds"
    assert supervise.marked(str(tmp_path / "task")) == []


@pytest.mark.parametrize("killed", [("guard",), ("supervisor",), ("guard", "supervisor")])
def test_a_killed_supervisor_leaves_nothing_running_and_is_told(engine, tmp_path, killed):
    tag = f"600{time.time_ns() % 10**9}"
    # One process in a session of its own whose parent has gone, and the command itself, deaf to SIGTERM.
    one = task(tmp_path, "bash", "-c", f"trap '' TERM; (setsid sleep {tag} &); sleep {tag}; true")
    engine.start(one)
    guard = engine._running["task"][1].process.pid
    until_there(lambda: len(supervise.marked(mark_of(one))), 3)
    (supervisor,) = children(guard)
    pids = {"guard": guard, "supervisor": supervisor}
    for name in killed:  # stopped first, so that neither sees the other's end
        os.kill(pids[name], signal.SIGSTOP)
    for name in killed:
        os.kill(pids[name], signal.SIGKILL)
    ended = end(engine)
    # Not as a command that somebody killed, which might have been for want of memory.
    assert ended.stopped == "lost"
    until_there(lambda: len(supervise.marked(mark_of(one))), 0)
