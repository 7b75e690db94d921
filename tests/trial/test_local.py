"""The local engine: limits, and that nothing of a task is left, however it began."""

from __future__ import annotations

import os
import signal
import subprocess
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

#: Forks twice, begins a session of its own, forgets its environment, and sleeps: a daemon.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)  # {}"], {{}})
    os._exit(0)
os.wait()
{}
"""


#: A search that begins a trial, and is killed while it runs.
OWNER = """
import sys, time
from pathlib import Path
from oomph.trial.engine import Task
from oomph.trial.engines.local import LocalEngine
folder = Path(sys.argv[1])
LocalEngine().start(Task("task", (sys.executable, "-c", sys.argv[2]), folder, folder))
time.sleep(600)
"""


def python(folder: Path, code: str, name: str = "task", **limits) -> Task:
    task_folder = folder / name
    task_folder.mkdir()
    return Task(name, (sys.executable, "-c", code), task_folder, folder, limits=Limits(**limits))


def run(task: Task, seconds: float = 60.0) -> Finished:
    engine = LocalEngine()
    try:
        engine.start(task)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = engine.finished(1.0)
            if found:
                return found[0]
        raise AssertionError("it did not end")
    finally:
        engine.close()


def living(word: str) -> list[int]:
    """Processes whose command line has the word."""
    found = []
    for pid in supervise.processes():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line and pid != os.getpid():
            found.append(pid)
    return found


def test_a_task_that_ends_by_itself(tmp_path):
    ended = run(python(tmp_path, "import sys; print('said'); print('cried', file=sys.stderr); sys.exit(3)"))
    assert (ended.exit_code, ended.stopped) == (3, "")
    assert (tmp_path / "task" / "out.txt").read_text() == "said\n"
    assert (tmp_path / "task" / "err.txt").read_text() == "cried\n"


def test_a_signal_is_128_and_its_number(tmp_path):
    ended = run(python(tmp_path, "import os; os.kill(os.getpid(), 9)"))
    assert (ended.exit_code, ended.stopped) == (137, "")


def test_a_command_that_is_not_there(tmp_path):
    (tmp_path / "task").mkdir()
    ended = run(Task("task", ("no-such-command-here",), tmp_path / "task", tmp_path))
    assert ended.exit_code == 127
    assert "not found" in ended.why


def test_the_environment_is_added_and_temporary_files_go_away(tmp_path):
    code = (
        "import os, tempfile; f = tempfile.NamedTemporaryFile(delete=False);"
        "print(os.environ['GIVEN'], os.path.dirname(f.name))"
    )
    (tmp_path / "task").mkdir()
    task = Task("task", (sys.executable, "-c", code), tmp_path / "task", tmp_path, {"GIVEN": "yes"})
    run(task)
    said = (tmp_path / "task" / "out.txt").read_text().split()
    assert said == ["yes", str(tmp_path / "task" / "tmp")]
    assert not (tmp_path / "task" / "tmp").exists()


def test_a_hung_task_with_a_daemon_and_deaf_to_sigterm_is_ended(tmp_path):
    word = f"word-{os.getpid()}-hung"
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    ended = run(python(tmp_path, DAEMON.format(word, deaf), seconds=1.0))
    assert ended.stopped == "seconds"
    assert living(word) == []
    assert supervise.marked(str((tmp_path / "task").resolve())) == []


def test_what_a_task_leaves_behind_is_ended_too(tmp_path):
    word = f"word-{os.getpid()}-left"
    ended = run(python(tmp_path, DAEMON.format(word, "")))
    assert (ended.exit_code, ended.stopped) == (0, "")
    assert living(word) == []


def test_a_task_that_fills_the_disk(tmp_path):
    code = (
        "import time\n"
        "with open('task/full', 'wb') as f:\n"
        "    while True:\n"
        "        f.write(b'x' * (1 << 20)); f.flush(); time.sleep(0.01)\n"
    )
    ended = run(python(tmp_path, code, disk_bytes=8 << 20))
    assert ended.stopped == "disk"
    assert str(8 << 20) in ended.why


def test_a_floor_of_free_disk(tmp_path):
    free = supervise.free_bytes(str(tmp_path)) or 0
    ended = run(python(tmp_path, "import time; time.sleep(600)", free_disk_bytes=free + (1 << 40)))
    assert ended.stopped == "disk"


def test_main_memory_of_all_its_processes(tmp_path):
    code = (
        "import os, time\nif os.fork() == 0:\n    held = b'x' * (200 << 20)\n    time.sleep(600)\nos.wait()\n"
    )
    ended = run(python(tmp_path, code, memory_bytes=150 << 20))
    assert ended.stopped == "memory"


def test_cancel(tmp_path):
    engine = LocalEngine(slots=2)
    first, second = (python(tmp_path, "import time; time.sleep(600)", name) for name in ("a", "b"))
    engine.start(first)
    engine.start(second)
    engine.cancel(first)
    ended = []
    while not ended:
        ended = list(engine.finished(10.0))
    assert [(one.task.name, one.stopped) for one in ended] == [("a", "cancelled")]
    engine.close()
    engine.close()
    assert supervise.marked(mark_of(second)) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_engine_leaves_nothing_running(tmp_path, number):
    """The process that has the engine is killed: its supervisors see that and end their tasks."""
    code = """if True:
        import sys
        from pathlib import Path
        from oomph.trial.engine import Task
        from oomph.trial.engines.local import LocalEngine
        folder = Path(sys.argv[1])
        (folder / "t").mkdir()
        engine = LocalEngine()
        engine.start(Task("t", (sys.executable, "-c", "import time; time.sleep(600)"), folder / "t", folder))
        print("on", flush=True)
        engine.finished(600)
    """
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as one:
        assert one.stdout.readline() == b"on\n"
        mark = str((tmp_path / "t").resolve())
        until = time.monotonic() + 30
        while not supervise.marked(mark) and time.monotonic() < until:
            time.sleep(0.05)
        assert supervise.marked(mark)
        one.send_signal(number)
    while supervise.marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert supervise.marked(mark) == []


def test_an_engine_that_does_not_exist():
    from oomph.errors import UsageError
    from oomph.trial.engines.registry import make_engine

    with pytest.raises(UsageError, match="local, trace, slurm, ray"):
        make_engine("pbs")
    assert make_engine("local", slots=3).slots == 3


def test_what_an_interrupted_search_left_is_ended_before_a_trial_in_its_folder(tmp_path):
    """A search that was killed: its trial does not listen to SIGTERM, and takes the grace of its supervisor."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)  # deaf-one"
    first = python(tmp_path, deaf)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(first.folder), deaf])
    try:
        until = time.monotonic() + 30
        while not any(pid != owner.pid for pid in supervise.marked(mark_of(first))):
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        owner.kill()
        owner.wait()
    second = Task("task", (sys.executable, "-c", "raise SystemExit(3)"), first.folder, tmp_path)
    assert run(second).exit_code == 3
    assert supervise.marked(mark_of(first)) == []
    assert living(str(first.folder / supervise.TASK)) == []
