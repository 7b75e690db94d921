# ruff: noqa: E501 (lines as the launchers print them)
"""DeepSpeed, accelerate, mp.spawn, Lightning, MPI, Ray and the kernel."""

from calendar import timegm

import pytest

from tests.evidence.launchers.text import codes, exits


def test_deepspeed_kills_the_rest():
    (end,) = exits("[2025-03-04 09:03:02,008] [INFO] [launch.py:178:sigkill_handler] Killing subprocess 1411")
    assert (end.code, end.pid, end.killer, end.launcher) == (None, 1411, "launcher", "deepspeed")
    assert end.time == timegm((2025, 3, 4, 9, 3, 2)) + 0.008


@pytest.mark.parametrize("code", [1, -9, -11])
def test_deepspeed_return_code(code):
    (end,) = exits(
        "[2025-03-04 09:03:02,009] [ERROR] [launch.py:184:sigkill_handler] ['/opt/conda/bin/python', '-u', 'run_t5.py', "
        f"'--local_rank=3', '--deepspeed', 'ds.json'] exits with return code = {code}"
    )
    assert (end.code, end.local_rank, end.rank) == (code, 3, None)


def test_deepspeed_success_and_pdsh():
    assert codes("[2025-03-04 09:03:02,009] [INFO] [launch.py:351:main] Process 412 exits successfully.") == [
        (0, None, 412)
    ]
    (end,) = exits("pdsh@head: node-1: ssh exited with exit code 1")
    assert (end.code, end.host) == (1, "node-1")


def test_accelerate():
    end = exits(
        '  File "/opt/venv/lib/python3.11/site-packages/accelerate/commands/launch.py", line 763, in simple_launcher\n'
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\n"
        "subprocess.CalledProcessError: Command '['/opt/venv/bin/python3', 'train.py']' returned non-zero exit status 1."
    )[-1]
    assert (end.code, end.launcher, end.local_rank) == (1, "accelerate", None)


def test_subprocess_signals():
    assert codes(
        "subprocess.CalledProcessError: Command '['python', 't.py']' died with <Signals.SIGKILL: 9>."
    ) == [(-9, None, None)]
    assert codes("CalledProcessError: Command 'x' died with unknown signal 64.") == [(-64, None, None)]


def test_torch_distributed_launch_names_the_local_rank():
    (end,) = exits(
        "subprocess.CalledProcessError: Command '['/opt/bin/python', '-u', 'train.py', '--local_rank=3']' returned "
        "non-zero exit status 1."
    )
    assert (end.local_rank, end.launcher) == (3, "torchrun")


@pytest.mark.parametrize(
    ("line", "code", "rank"),
    [
        ("-- Process 3 terminated with the following error:", 1, 3),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
            -9,
            0,
        ),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 1", 1, 1),
        ("Exception: process 2 terminated with signal 9", -9, 2),
    ],
)
def test_spawn(line, code, rank):
    (end,) = exits(line)
    assert (end.code, end.rank, end.local_rank, end.launcher) == (code, rank, rank, "spawn")


def test_lightning_child():
    (end,) = exits(
        "[rank: 1] Child process with PID 6789 terminated with code -9. Forcefully terminating all other processes to "
        "avoid zombies"
    )
    assert (end.code, end.rank, end.pid, end.launcher) == (-9, 1, 6789, "lightning")


def test_open_mpi_and_hydra():
    (end,) = exits(
        "mpirun noticed that process rank 3 with PID 412 on node node-0 exited on signal 9 (Killed)."
    )
    assert (end.code, end.rank, end.pid, end.host) == (-9, 3, 412, "node-0")
    (end,) = exits("=   RANK 2 PID 811 RUNNING AT node-4\n=   KILLED BY SIGNAL: 9 (Killed)")
    assert (end.code, end.rank, end.pid, end.host) == (-9, 2, 811, "node-4")
    (end,) = exits("=   PID 811 RUNNING AT node-4\n=   EXIT CODE: 9")
    assert (end.code, end.pid) == (None, 811)


def test_rays_list_of_possible_causes_is_no_code():
    (end,) = exits(
        "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.\n"
        "A worker died or was killed while executing a task by an unexpected system error. RayTask ID: 0a Worker ID: 0b "
        "Node ID: 0c Worker IP address: 10.0.0.2 Worker port: 10002 Worker PID: 991 Worker exit type: SYSTEM_ERROR Worker "
        "exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential "
        "root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force "
        "is called."
    )
    assert (end.code, end.pid, end.host, end.killer, end.launcher) == (None, 991, "10.0.0.2", "", "ray")


def test_dead_ray_actor_with_its_fields_below():
    (end,) = exits(
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: TrainWorker\n\tactor_id: 0c11\n\tpid: 41230\n\tip: 10.0.0.7\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
        "Worker unexpectedly exits with a connection error code 2."
    )
    assert (end.code, end.pid, end.host) == (None, 41230, "10.0.0.7")


def test_rays_memory_monitor_is_a_killer():
    (end,) = exits(
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.3, ID: 01ab) where the task (actor ID: 77aa, name=EnvRunner.__init__, pid=991, "
        "memory used=4.10GB) was running was 120.44GB / 125.70GB (0.958154), which exceeds the memory usage threshold of "
        "0.95. Ray killed this worker (ID: 12) because it was the most recently scheduled task"
    )
    assert (end.code, end.pid, end.killer) == (None, 991, "launcher")


KERNEL = """\
[90211.1] python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
[90211.2] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/slurm/job_7,task_memcg=/slurm/job_7/step_0,task=python,pid=4117,uid=1000
[90211.3] Memory cgroup out of memory: Killed process 4117 (python) total-vm:98304000kB, anon-rss:66060288kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:130000kB oom_score_adj:0
[90211.9] oom_reaper: reaped process 4117 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
"""


def test_one_kill_of_the_kernel_is_one_exit():
    (end,) = exits(KERNEL)
    assert (end.code, end.pid, end.killer, end.launcher) == (-9, 4117, "kernel", "kernel")


def test_the_same_pid_much_later_is_another_kill():
    assert len(exits(KERNEL + "ordinary\n" * 1000 + KERNEL)) == 2


@pytest.mark.parametrize(
    "line",
    [
        "Out of memory: Killed process 4117 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB",
        "[ 1.2] Out of memory: Kill process 4117 (python) score 987 or sacrifice child",
        "[ 1.3] Killed process 4117 (python), UID 1000, total-vm:98304000kB, anon-rss:66060288kB",
        "Mar  4 09:41:17 node-0 kernel: Memory cgroup out of memory: Kill process 4117 (python) score 1 or sacrifice child",
    ],
)
def test_kernel_lines_of_several_versions(line):
    assert codes(line) == [(-9, None, 4117)]


def test_systemd_does_not_say_who_killed():
    (end,) = exits(
        "Mar 04 09:41:17 node-0 systemd[1]: train.service: Main process exited, code=killed, status=9/KILL"
    )
    assert (end.code, end.killer, end.pid) == (-9, "", None)
