"""The Slurm engine: submitit's own Slurm path against commands that answer as Slurm does, and its local stand-in."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.errors import OomphError, UsageError
from oomph.trial import supervise
from oomph.trial.engine import Task
from oomph.trial.model import Limits
from oomph.trial.supervised import mark_of

submitit = pytest.importorskip("submitit")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and subreapers")

from oomph.trial.engines import slurm  # noqa: E402
from oomph.trial.engines.slurm import SlurmEngine  # noqa: E402
from oomph.trial.engines.slurm_options import minutes_of, parameters_of  # noqa: E402

FAKE = Path(__file__).with_name("fake_slurm.py")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The commands of Slurm on the PATH; their jobs are folders in what comes back."""
    commands, jobs = tmp_path / "bin", tmp_path / "jobs"
    commands.mkdir()
    jobs.mkdir()
    for name in ("sbatch", "srun", "scancel", "sacct", "scontrol"):
        path = commands / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKE}" {name} "$@"\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(jobs))
    submitit.SlurmJob.watcher.clear()  # every cluster counts its jobs from 1000 on
    return jobs


@pytest.fixture
def engine(cluster):
    made = SlurmEngine(slots=2, ask_seconds=0.2)
    yield made
    made.close()


def task(folder: Path, *command: str, name: str = "trial", gpus: int = 0, **limits) -> Task:
    place = folder / name
    place.mkdir()
    return Task(name, command, place, folder, {"GIVEN": "yes"}, Limits(**limits), gpus)


def ended(engine: SlurmEngine, number: int = 1) -> list:
    found: list = []
    until = time.monotonic() + 60
    while len(found) < number and time.monotonic() < until:
        found += engine.finished(1.0)
    assert len(found) == number
    return found


def running(one: Task) -> int:
    return len(supervise.marked(mark_of(one)))


def until_there(count, wanted) -> None:
    until = time.monotonic() + 30
    while count() != wanted and time.monotonic() < until:
        time.sleep(0.05)
    assert count() == wanted


def test_a_job_with_its_script_its_environment_and_its_output(cluster, tmp_path):
    options = {"partition": "a100", "account": "mine", "time": "1:30:00", "cpus_per_task": "4", "mem": "32G"}
    engine = SlurmEngine(ask_seconds=0.2, **options, reservation="night")
    one = task(tmp_path, "sh", "-c", "echo $GIVEN $SLURM_JOB_ID; pwd; exit 3", gpus=2)
    engine.start(one)
    (end,) = ended(engine)
    engine.close()
    assert (end.exit_code, end.stopped, end.task) == (3, "", one)
    assert (one.folder / "out.txt").read_text() == f"yes 1000\n{tmp_path}\n"
    script = (cluster / "1000" / "script").read_text().splitlines()
    for line in (
        "partition=a100",
        "account=mine",
        "time=90",
        "cpus-per-task=4",
        "mem=32G",
        "gpus-per-node=2",
    ):
        assert f"#SBATCH --{line}" in script
    assert "#SBATCH --reservation=night" in script
    assert "#SBATCH --job-name=trial" in script
    assert "#SBATCH --no-requeue" in script


def test_a_job_that_waits_is_not_over_and_can_be_cancelled(engine, tmp_path, cluster):
    one = task(tmp_path, "true", name="pending", seconds=0.1)
    engine.start(one)
    assert engine.finished(1.0) == []
    engine.cancel(one)
    engine.cancel(one)
    (end,) = ended(engine)
    assert (end.exit_code, end.stopped) == (None, "cancelled")
    assert (cluster / "1000" / "state").read_text() == "CANCELLED by 1000"


def test_cancelling_a_running_job_ends_all_of_it(engine, tmp_path):
    one = task(tmp_path, "bash", "-c", "(setsid sleep 600 &); sleep 600; true")
    engine.start(one)
    until_there(lambda: running(one), 3)
    engine.cancel(one)
    (end,) = ended(engine)
    assert end.stopped == "cancelled"
    assert running(one) == 0


def test_a_job_that_somebody_else_cancels_is_lost(engine, tmp_path):
    one = task(tmp_path, "sleep", "600")
    engine.start(one)
    until_there(lambda: running(one), 1)
    subprocess.run(["scancel", "1000"], check=True)
    (end,) = ended(engine)
    assert (end.stopped, end.why) == ("lost", "Slurm job 1000: somebody cancelled the job")
    assert running(one) == 0


def test_limits_hold_inside_the_job(engine, tmp_path):
    engine.start(task(tmp_path, "sleep", "600", seconds=0.3))
    (end,) = ended(engine)
    assert end.stopped == "seconds"


@pytest.mark.parametrize(
    ("name", "stopped", "why"),
    [
        ("nodefail", "lost", "Slurm job 1000: a node of the job failed"),
        ("preempted", "lost", "Slurm job 1000: Slurm took the job's nodes back (preemption)"),
        ("timeout", "seconds", "Slurm job 1000: the job's time in Slurm was over"),
    ],
)
def test_jobs_that_slurm_ends(engine, tmp_path, name, stopped, why):
    one = task(tmp_path, "sleep", "600", name=name)
    engine.start(one)
    (end,) = ended(engine)
    assert (end.exit_code, end.stopped) == (None, stopped)
    assert end.why.startswith(why)
    until_there(lambda: running(one), 0)


def test_main_memory_that_ran_out_inside_the_job(engine, tmp_path):
    """The kernel kills the command, the job itself ends well; Slurm tells that it was for want of memory."""
    engine.start(task(tmp_path, "sh", "-c", "kill -KILL $$", name="oom"))
    (end,) = ended(engine)
    assert (end.exit_code, end.stopped) == (137, "memory")
    assert end.why == "Slurm ended it because it ran out of the job's main memory"


def test_without_accounting_the_controller_is_asked(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_SACCT", "1")
    engine.start(task(tmp_path, "sleep", "600", name="nodefail"))
    (end,) = ended(engine)
    assert end.stopped == "lost"
    assert "a node of the job failed" in end.why


def test_a_job_on_two_nodes_ends_as_the_first_bad_one(cluster, tmp_path):
    engine = SlurmEngine(ask_seconds=0.2, nodes="2")
    one = task(tmp_path, "sh", "-c", "echo on $SLURM_NODEID; exit $SLURM_NODEID", gpus=16)
    engine.start(one)
    (end,) = ended(engine)
    engine.close()
    assert (end.exit_code, end.stopped, end.task) == (1, "", one)
    assert (one.folder / "out.txt").read_text() == "on 0\n"
    assert (one.folder / "node1" / "out.txt").read_text() == "on 1\n"
    # 16 GPUs on 2 nodes.
    assert "#SBATCH --gpus-per-node=8" in (cluster / "1000" / "script").read_text()


def test_a_job_that_sbatch_refuses(cluster, tmp_path):
    engine = SlurmEngine(partition="closed")
    with pytest.raises(OomphError) as told:
        engine.start(task(tmp_path, "true"))
    assert str(told.value) == (
        "Slurm refused trial: sbatch: error: Batch job submission failed: Invalid partition name specified."
    )
    engine.close()


def test_a_folder_that_the_node_does_not_see(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "run_task", _sees_nothing)
    one = task(tmp_path, "true")
    engine.start(one)
    (end,) = ended(engine)
    assert end.stopped == "lost"
    assert "the folder has to be on a file system that all nodes share" in end.why


def _sees_nothing(one, word, seconds):
    from oomph.trial.engine import Finished
    from oomph.trial.engines.sharing import missing_word

    return Finished(one, None, "lost", missing_word(one, "another", seconds=0.0))


def test_submitits_stand_in(tmp_path):
    engine = SlurmEngine(cluster="local", ask_seconds=0.2)
    one = task(tmp_path, "sh", "-c", "echo said; exit 4")
    two = task(tmp_path, "sleep", "600", name="other")
    engine.start(one)
    (end,) = ended(engine)
    assert (end.exit_code, end.stopped) == (4, "")
    engine.start(two)
    until_there(lambda: running(two), 1)
    engine.close()
    assert running(two) == 0


def test_a_cancelled_job_of_the_stand_in_prints_no_traceback(tmp_path, capfd):
    engine = SlurmEngine(cluster="local")
    try:
        one = task(tmp_path, "sleep", "600")
        engine.start(one)
        until_there(lambda: running(one), 1)
        engine.cancel(one)
        (end,) = ended(engine)
    finally:
        engine.close()
    assert end.stopped == "cancelled"
    assert "Traceback" not in capfd.readouterr().err


def test_no_slurm_here(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="sbatch and srun are not on the PATH"):
        SlurmEngine()


@pytest.mark.parametrize(
    ("text", "minutes"),
    # sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, ...
    [
        ("30", 30),
        ("30:01", 31),
        ("2:00:00", 120),
        ("1-0", 1440),
        ("1-2:30", 1590),
        ("1-2:30:30", 1591),
        ("0:01", 1),
    ],
)
def test_times_as_sbatch_takes_them(text, minutes):
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    "options", [{"time": "soon"}, {"nodes": "0"}, {"nodes": "two"}, {"cpus-per-task": "1.5"}]
)
def test_options_that_make_no_sense(options, tmp_path):
    with pytest.raises(UsageError, match="--engine-option"):
        parameters_of(Task("t", ("true",), tmp_path, tmp_path), options)


def test_the_time_of_a_job_follows_the_tasks_own_limit(tmp_path):
    limited = Task("t", ("true",), tmp_path, tmp_path, limits=Limits(seconds=600))
    # 600 s of the task, 120 s to start and end it, 60 s of warning: 13 minutes.
    assert parameters_of(limited, {})["timeout_min"] == 13
    assert parameters_of(limited, {"time": "5"})["timeout_min"] == 5
    assert parameters_of(Task("t", ("true",), tmp_path, tmp_path), {})["timeout_min"] == 60


def test_gpus_are_asked_for_once(tmp_path):
    one = Task("t", ("true",), tmp_path, tmp_path, gpus=4)
    assert "gpus_per_node" not in parameters_of(one, {"gres": "gpu:a100:4"})
    assert parameters_of(one, {"gpus_per_node": "8"})["gpus_per_node"] == 8
