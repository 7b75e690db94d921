# ruff: noqa: E501 (lines as the launchers print them)
"""srun, slurmstepd and sacct."""

from calendar import timegm

import pytest

from tests.evidence.launchers.text import codes, exits


def test_one_task():
    (end,) = exits("srun: error: node-0: task 3: Exited with exit code 1")
    assert (end.code, end.rank, end.host, end.killer, end.launcher) == (1, 3, "node-0", "", "srun")


def test_several_tasks():
    assert codes("srun: error: node-0: tasks 0-2,5: Terminated") == [
        (-15, rank, None) for rank in (0, 1, 2, 5)
    ]
    assert codes("srun: error: node-[0-1]: tasks 1,3: Killed") == [(-9, 1, None), (-9, 3, None)]
    assert exits("srun: error: node-[0-1]: tasks 1,3: Killed")[0].host is None


def test_a_task_that_the_cgroup_killed():
    (end,) = exits("srun: error: node-2: task 1: Out Of Memory")
    assert (end.code, end.rank, end.killer) == (-9, 1, "kernel")


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("Segmentation fault (core dumped)", -11),
        ("Aborted (core dumped)", -6),
        ("Bus error", -7),
        ("Killed", -9),
    ],
)
def test_signals_by_their_names(says, code):
    assert codes(f"srun: error: gpu-7: task 0: {says}") == [(code, 0, None)]


def test_tasks_are_not_ranks_when_each_runs_torchrun():
    text = "+ srun torchrun --nproc_per_node=8 train.py\nsrun: error: node-1: task 1: Exited with exit code 1"
    assert codes(text)[-1] == (1, None, None)


def test_tasks_stay_ranks_when_only_record_wraps_the_script():
    text = (
        '  File "/opt/lib/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 367, in wrapper\n'
        "srun: error: node-1: task 1: Exited with exit code 1"
    )
    assert codes(text) == [(1, 1, None)]


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("slurmstepd: error: *** STEP 7712.0 ON node-0 CANCELLED AT 2025-03-04T10:00:09 ***", "node-0"),
        (
            "slurmstepd: error: *** JOB 7712 ON node-0 CANCELLED AT 2025-03-04T10:00:09 DUE TO TIME LIMIT ***",
            "node-0",
        ),
        (
            "slurmstepd: error: *** JOB 7712 ON gpu-1 CANCELLED AT 2025-03-04T10:00:09 DUE TO PREEMPTION ***",
            "gpu-1",
        ),
    ],
)
def test_cancelled(line, host):
    (end,) = exits(line)
    assert (end.code, end.killer, end.host) == (-15, "launcher", host)
    assert end.time == timegm((2025, 3, 4, 10, 0, 9))


@pytest.mark.parametrize(
    ("line", "killer"),
    [
        ("slurmstepd: error: Detected 2 oom-kill event(s) in StepId=5544.0. Some of your processes may have been killed by the cgroup out-of-memory handler.", "kernel"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=5544.batch. Some of the step tasks have been OOM Killed.", "kernel"),
        ("slurmstepd: error: Job 5544 exceeded memory limit (68157440 > 67108864), being killed", "launcher"),
        ("5544.0       python              OUT_OF_MEMORY    0:125", "kernel"),
        ("5544.batch        batch OUT_OF_ME+      0:125", "kernel"),
    ],
)  # fmt: skip
def test_memory_kills(line, killer):
    (end,) = exits(line)
    assert (end.code, end.rank, end.killer) == (-9, None, killer)


def test_nonsense_task_lists():
    assert len(exits("srun: error: n: tasks 0-999999: Killed")) == 4096
    assert exits("srun: error: n: tasks 9-1: Killed") == []
    assert exits("srun: error: n: tasks -,-: Killed") == []
    assert (
        exits("srun: error: Unable to allocate resources: Requested node configuration is not available")
        == []
    )
