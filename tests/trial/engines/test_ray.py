"""The Ray engine on a real Ray cluster of this machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.errors import OomphError, UsageError
from oomph.evidence.sources import load_all
from oomph.trial import supervise
from oomph.trial.engine import Task
from oomph.trial.engines.sharing import leave_word, missing_word
from oomph.trial.fanout.logs import reads_elsewhere
from oomph.trial.model import Limits
from oomph.trial.supervised import mark_of

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and subreapers")

from oomph.trial.engines import ray_cluster  # noqa: E402
from oomph.trial.engines.ray import RayEngine, _reason  # noqa: E402
from oomph.trial.engines.ray_cluster import RayCluster  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    """Two CPU slots and four GPU slots: Ray does not ask whether there are GPUs."""
    made = RayCluster(cpus=2, gpus=4)
    yield made
    made.close()


@pytest.fixture
def engine(cluster):
    made = RayEngine(slots=2)
    yield made
    made.close()


def task(folder: Path, *command: str, name: str = "task", gpus: int = 0, **limits) -> Task:
    place = folder / name
    place.mkdir()
    return Task(name, command, place, folder, {"GIVEN": "yes"}, Limits(**limits), gpus)


def python(folder: Path, program: str, **rest) -> Task:
    return task(folder, sys.executable, "-c", program, **rest)


def ended(engine: RayEngine, number: int = 1) -> list:
    found: list = []
    until = time.monotonic() + 60
    while len(found) < number and time.monotonic() < until:
        found += engine.finished(1.0)
    assert len(found) == number
    return found


def running(one: Task) -> int:
    return len(supervise.marked(mark_of(one)))


def until_there(count, wanted: int) -> None:
    until = time.monotonic() + 30
    while count() != wanted and time.monotonic() < until:
        time.sleep(0.05)
    assert count() == wanted


def test_a_task_with_its_gpus_its_environment_and_its_output(engine, tmp_path):
    program = (
        "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'].count(','), os.environ['GIVEN'], os.getcwd());"
        "print('cried', file=sys.stderr); sys.exit(3)"
    )
    one = python(tmp_path, program, gpus=2)
    engine.start(one)
    (end,) = ended(engine)
    assert (end.exit_code, end.stopped, end.task) == (3, "", one)
    # Two GPUs: one comma.
    assert (one.folder / "out.txt").read_text().split() == ["1", "yes", str(tmp_path)]
    assert (one.folder / "err.txt").read_text() == "cried\n"


def test_a_task_of_no_gpus_sees_what_the_engine_sees(engine, tmp_path):
    one = python(tmp_path, "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    engine.start(one)
    ended(engine)
    assert (one.folder / "out.txt").read_text().strip() == str(os.environ.get("CUDA_VISIBLE_DEVICES"))


def test_limits_hold(engine, tmp_path):
    hold = "x = b'x' * 300_000_000; import time; time.sleep(60)"
    one = task(tmp_path, "sleep", "60", name="slow", seconds=0.5)
    two = python(tmp_path, hold, name="large", memory_bytes=200_000_000, seconds=50)
    engine.start(one)
    engine.start(two)
    assert {end.task.name: end.stopped for end in ended(engine, 2)} == {"slow": "seconds", "large": "memory"}


def test_cancel_ends_the_whole_tree_and_what_still_waits(engine, tmp_path):
    # Two CPU slots: the third task waits for a place.
    script = "trap '' TERM; (setsid sleep 600 &); sleep 600; true"
    tasks = [task(tmp_path, "bash", "-c", script, name=name) for name in ("a", "b", "c")]
    for one in tasks:
        engine.start(one)
    until_there(lambda: running(tasks[0]) + running(tasks[1]), 6)
    assert engine.finished(0.1) == []
    engine.cancel(tasks[2])
    engine.cancel(tasks[0])
    engine.cancel(tasks[0])
    assert {end.task.name: end.stopped for end in ended(engine, 2)} == {"a": "cancelled", "c": "cancelled"}
    assert running(tasks[0]) == 0
    assert not (tasks[2].folder / "out.txt").exists()
    engine.cancel(tasks[1])
    ended(engine)
    assert running(tasks[1]) == 0


def test_a_worker_that_dies_is_lost_and_is_not_tried_again(engine, tmp_path, capfd):
    one = task(tmp_path, "bash", "-c", "echo begun >> begun; (setsid sleep 600 &); sleep 600; true")
    engine.start(one)
    until_there(lambda: running(one), 3)
    # The actor is the parent of the guard, which is the parent of the supervisor, the command's parent.
    parents = supervise.processes()
    (worker,) = {parents[parents[parents[pid]]] for pid in supervise.marked(mark_of(one)) if _is_bash(pid)}
    os.kill(worker, signal.SIGKILL)
    (end,) = ended(engine)
    assert (end.exit_code, end.stopped) == (None, "lost")
    assert end.why.startswith("Ray lost it: The actor is dead because its worker process has died")
    until_there(lambda: running(one), 0)
    assert (tmp_path / "begun").read_text() == "begun\n"
    assert capfd.readouterr().out == ""


def _is_bash(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "bash\n"


def test_ray_ending_it_for_want_of_main_memory(engine, tmp_path, monkeypatch):
    """Ray's guard acts when the machine's memory is full: its own exception stands for it."""
    one = task(tmp_path, "sleep", "600")
    engine.start(one)
    until_there(lambda: running(one), 1)

    def from_ray(_ref):
        raise ray.exceptions.OutOfMemoryError("Memory on the node was 31.5GB / 32.0GB (0.98)\nmore")

    engine._running["task"].result = ray.put("anything that is ready")
    with monkeypatch.context() as patch:
        patch.setattr(ray, "get", from_ray)
        (end,) = ended(engine)
    assert (end.exit_code, end.stopped) == (None, "memory")
    assert end.why == (
        "Ray ended it because its node ran out of main memory: Memory on the node was 31.5GB / 32.0GB (0.98)"
    )
    until_there(lambda: running(one), 0)  # with its actor


def test_a_folder_that_the_node_does_not_see(tmp_path):
    one = task(tmp_path, "true")
    word = leave_word(one, "ray")
    assert missing_word(one, word, seconds=0.0) == ""
    assert missing_word(one, "another", seconds=0.0).endswith(
        f"does not see {one.folder}: the folder has to be on a file system that all nodes share"
    )


def test_files_are_read_on_ray(engine, tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    logs.mkdir()
    for rank in range(5):
        rows = "\n".join(f"[rank{rank}] step={step}" for step in range(4000))
        (logs / f"rank_{rank}.log").write_text(f"{rows}\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    monkeypatch.chdir(tmp_path)
    far = load_all(["logs"], elsewhere=reads_elsewhere(engine, pytest.fail))
    assert far == load_all(["logs"])
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_more_gpus_than_there_are(tmp_path, engine):
    engine._cluster.own = True
    try:
        with pytest.raises(OomphError, match="task needs 8 GPUs and Ray sees 4 on this machine"):
            engine.start(task(tmp_path, "true", gpus=8))
    finally:
        engine._cluster.own = False


@pytest.mark.parametrize("options", [{"slots": "none"}, {"slots": 0}, {"cpus": -1}])
def test_options_that_make_no_sense(options):
    with pytest.raises(UsageError, match="--engine-option"):
        RayEngine(**options)


def test_the_line_that_says_why():
    text = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: W\n\tpid: 4619\n"
        "The actor is dead because its node has died. Node Id: a76417b7"
    )
    assert _reason(RuntimeError(text)) == "The actor is dead because its node has died. Node Id: a76417b7"


DRIVER = """
import sys
from pathlib import Path
from oomph.trial.engine import Task
from oomph.trial.engines.sharing import leave_word, missing_word
from oomph.trial.engines import ray_cluster  # noqa: E402
from oomph.trial.engines.ray import RayEngine
folder = Path(sys.argv[1])
(folder / "t").mkdir()
engine = RayEngine()
engine.start(Task("t", ("bash", "-c", "(setsid sleep 600 &); sleep 600; true"), folder / "t", folder))
print("on", flush=True)
engine.finished(600)
"""


def test_a_dead_driver_leaves_nothing_running(tmp_path):
    """A cluster of its own, whose driver is killed: Ray and the task end."""
    one = Task("t", (), tmp_path / "t", tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], stdout=subprocess.PIPE, env=environment
    ) as driver:
        try:
            assert driver.stdout.readline() == b"on\n"
            until_there(lambda: running(one), 3)
        finally:
            driver.kill()
    until_there(lambda: running(one), 0)
    ray_cluster._remove_stale()
    assert list(Path("/tmp").glob(f"oomph-ray-{driver.pid}-*")) == []
