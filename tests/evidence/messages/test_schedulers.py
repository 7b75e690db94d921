"""Schedulers, daemons and Windows that name host memory; and lines of theirs that do not."""

from __future__ import annotations

import pytest

from oomph.evidence.model import Kind
from tests.evidence.messages.read import read

TOLD = [
    (
        "HTCondor",
        "\tJob has gone over cgroup memory limit of 65536 megabytes. Last measured usage: 65401 megabytes.",
    ),
    (
        "HTCondor",
        "012 (88.0.0) Job was held. Error: Job has gone over memory limit of 2048 megabytes. Peak usage: 2100",
    ),
    ("LSF", "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."),
    ("PBS", "=>> PBS: job killed: mem 4194812kb exceeded limit 4194304kb"),
    ("PBS", "Cgroup mem limit exceeded: oom-kill constraint"),
    (
        "Grid Engine",
        'job 4711.1 exceeds job hard limit "h_vmem" of queue "gpu.q@n7" (34359738368.0 > limit:3.4e10)',
    ),
    ("Slurm", "4711.batch        batch    OUT_OF_ME+      0:125"),
    ("Slurm", "State: OUT_OF_MEMORY (exit code 0)"),
    (
        "systemd-oomd",
        "Feb 18 11:02:17 nb systemd[1980]: job.scope: systemd-oomd killed 23 process(es) in this unit.",
    ),
    (
        "earlyoom",
        'earlyoom[811]: sending SIGTERM to process 3312 uid 1000 "python": badness 1021, VmRSS 61000 MiB',
    ),
    ("macOS", "kernel: memorystatus: killing_top_process pid 3312 [python3.11] (highwater) 18211MB"),
]


@pytest.mark.parametrize(("sender", "line"), TOLD, ids=[f"{s}-{i}" for i, (s, _) in enumerate(TOLD)])
def test_who_killed_for_host_memory(sender: str, line: str):
    (failure,) = read(f"step 10 loss 2.0\n{line}\n")
    assert failure.kind is Kind.HOST_OOM
    assert failure.detail["sender"] == sender


def test_a_kill_that_two_lines_report_is_one():
    log = (
        "systemd-oomd[712]: Killed /user.slice/a.scope due to memory pressure for /user.slice being 71.30% > 50.00%\n"
        "systemd[1980]: a.scope: systemd-oomd killed 23 process(es) in this unit.\n"
    )
    assert len(read(log)) == 1


def test_windows_refuses_to_commit():
    log = (
        "Traceback (most recent call last):\n"
        '  File "C:\\train.py", line 3, in <module>\n'
        "    import torch\n"
        "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading x.dll\n"
    )
    (failure,) = read(log)
    assert failure.kind is Kind.HOST_OOM
    assert failure.raised


@pytest.mark.parametrize(
    "line",
    [
        "MemoryUsage of job (MB): 65401",
        "requeue_on: [OUT_OF_MEMORY_KILLED_BY_USER]",
        "earlyoom[811]: mem avail: 5011 of 63997 MiB (7.83%), swap free: 0 of 0 MiB",
        "memorystatus: jetsam enabled",
        "systemd-oomd.service: Deactivated successfully.",
        "e.g. TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
    ],
)
def test_lines_that_kill_nobody(line: str):
    assert read(f"step 1 loss 2.0\n{line}\n") == []


@pytest.mark.parametrize(
    ("line", "killed"),
    [
        ("Killed", True),
        ("Killed: 9", True),
        ("zsh: killed     python lora.py --device mps", True),
        ("Killed                  python train.py", True),
        ("Killed the old workers before the restart", False),
        ("killed by the user", False),
    ],
)
def test_what_a_shell_says_of_a_killed_child(line: str, killed: bool):
    kinds = [failure.kind for failure in read(f"step 1 loss 2.0\n{line}\n")]
    assert kinds == ([Kind.KILLED] if killed else [])


def test_flyte_and_kubernetes_reasons():
    line = "[f3-n0-0] terminated with exit code (137). Reason [OOMKilled]. Message:"
    assert Kind.HOST_OOM in [failure.kind for failure in read(line + "\n")]


def test_the_size_that_numpy_could_not_get():
    log = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n'
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 339. GiB for an array with shape (3, 5) and "
        "data type float32\n"
    )
    (failure,) = read(log)
    assert failure.numbers["requested_bytes"].bytes == 339 * 2**30


def test_another_frameworks_error_about_a_gpu_is_not_host_memory():
    log = (
        "Traceback (most recent call last):\n"
        '  File "tools/train.py", line 227, in <module>\n'
        "MemoryError: \n"
        "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.406250GB memory on GPU 0.\n"
    )
    assert read(log) == []


def test_the_global_rank_of_a_killed_process_stands_in_the_table():
    log = (
        "E0420 08:00:00 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -9) local_rank: 6 "
        "(pid: 3383) of binary: /opt/py/bin/python3\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  rank      : 14 (local_rank: 6)\n"
        "  exitcode  : -9 (pid: 3383)\n"
    )
    assert {failure.rank for failure in read(log)} == {14}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("RuntimeError: unable to write to file </torch_33_17_4>: No space left on device (28)", Kind.SHM),
        (
            "node-0:90:201 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-7c2 to 9 bytes",
            Kind.SHM,
        ),
        ("  traceback : Signal 7 (SIGBUS) received by PID 2013", Kind.SHM),
        ("./run.sh: line 8:   211 Bus error               (core dumped) python train.py", Kind.SHM),
        ("terminate called after throwing an instance of 'std::bad_alloc'", Kind.HOST_OOM),
        ("srun: error: gpu01: task 2: Killed", Kind.KILLED),
    ],
)
def test_shared_and_host_memory_in_other_words(line: str, kind: Kind):
    assert [failure.kind for failure in read(f"step 1 loss 2.0\n{line}\n")] == [kind]


def test_a_mapping_that_was_refused_names_its_size():
    line = "RuntimeError: unable to mmap 140737488355 bytes from file </models/a.pth>: Cannot allocate memory (12)"
    (failure,) = read(line + "\n")
    assert failure.kind is Kind.HOST_OOM
    assert failure.numbers["requested_bytes"].bytes == 140_737_488_355


def test_a_metal_buffer_that_is_too_large():
    (failure,) = read("RuntimeError: Invalid buffer size: 24.00 GB\n")
    assert failure.kind is Kind.UNIFIED_OOM
    assert failure.numbers["requested_bytes"].bytes == 24 * 2**30
