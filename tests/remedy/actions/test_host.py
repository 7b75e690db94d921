"""Host memory, shared memory, pinned and managed memory, unified memory, and what is no memory."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty, Step
from oomph.phases import Phase
from oomph.remedy.actions import all_actions
from tests.remedy.cases import case_of, finding_of

CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)"
)
KILLED = "ERROR: failed (exitcode: -9) local_rank: 0 (pid: 412) of binary: /usr/bin/python"
WORKER = "RuntimeError: DataLoader worker (pid 13557) is killed by signal: Killed. "
SLURM = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0. Some of your processes may have been killed."
RAY = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."
BUS = (
    "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that dataloader's "
    "workers are out of shared memory. Please try to raise your shared memory limit."
)
BARE = "RuntimeError: CUDA error: out of memory"
BNB = "Error out of memory at line 380 in file /build/bitsandbytes/csrc/pythonInterface.c"
TRITON = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 270336, Hardware limit: 232448. "
    "Reducing block sizes or `num_stages` may help."
)
MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 18.50 GiB, other allocations: 1.00 GiB, max allowed: "
    "20.00 GiB). Tried to allocate 1.00 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable "
    "upper limit for memory allocations (may cause system failure)."
)


def step(
    code: str,
    cause: str,
    text: str,
    numbers: dict[str, int] | None = None,
    certainty: Certainty = Certainty.CERTAIN,
    **case: object,
) -> Step:
    made = case_of(text, **case)  # type: ignore[arg-type]
    return all_actions()[code].step(made, finding_of(cause, code, numbers=numbers, certainty=certainty))


@pytest.mark.parametrize(
    ("text", "case", "title"),
    [
        (SLURM, {}, "Ask Slurm for more memory"),
        (RAY, {}, "Run fewer Ray tasks or actors per node"),
        (WORKER, {}, "Use fewer data-loader workers"),
        (CPU, {"facts": {"offload": "cpu:optimizer"}}, "Turn CPU offload off, or give the host more memory"),
        (CPU, {"phase": Phase.LOAD}, "Load on one rank only, or memory-mapped"),
        (CPU, {"phase": Phase.EVAL}, "Do not collect all results in memory"),
        (CPU, {"phase": Phase.UNKNOWN}, "Give the job more host memory, or make it use less"),
    ],
)
def test_host_memory_takes_the_measure_that_the_log_points_at(
    text: str, case: dict[str, object], title: str
) -> None:
    assert step("host-ram", "host_ram", text, **case).title == title  # type: ignore[arg-type]


def test_the_bytes_of_the_cpu_allocator_are_named() -> None:
    assert "32.00 GiB of host memory" in step("host-ram", "host_ram", CPU).text


def test_a_bare_kill_is_looked_up_before_anything_is_changed() -> None:
    made = step("host-ram", "host_ram", KILLED, certainty=Certainty.POSSIBLE, phase=Phase.UNKNOWN)
    assert made.title.startswith("Find out who sent SIGKILL")
    for command in ("dmesg -T", "sacct -j", "kubectl describe pod"):
        assert command in made.paste
    known = step("host-ram", "host_ram", KILLED, certainty=Certainty.LIKELY, phase=Phase.UNKNOWN)
    assert not known.title.startswith("Find out")


def test_shared_memory_is_raised_where_the_job_runs() -> None:
    assert "--shm-size" in step("shm-size", "shm", BUS).paste
    pod = "$ kubectl logs trainer-0\n" + BUS
    assert "medium: Memory" in step("shm-size", "shm", pod).paste


def test_pinning_is_turned_off_where_it_happens() -> None:
    zero = [
        ("/x/deepspeed/runtime/zero/stage3.py", "_create", "buffer = get_accelerator().pin_memory(buffer)")
    ]
    assert '"pin_memory": false' in step("unpin", "pinned_host_memory", BARE, frames=zero).paste
    loader = [("/x/torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop", "data = pin_memory(data)")]
    assert "pin_memory=False" in step("unpin", "pinned_host_memory", BARE, frames=loader).paste
    own = [("swap.py", "stage", "host = w.cpu().pin_memory()")]
    assert ".pin_memory()" in step("unpin", "pinned_host_memory", BARE, frames=own).paste
    assert ".wslconfig" in step("unpin", "pinned_host_memory", BARE, facts={"platform": "wsl2"}).text


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("paged_adamw_8bit", "Optimizer paged_adamw_8bit -> adamw_bnb_8bit"),
        ("paged_adamw_32bit", "Optimizer paged_adamw_32bit -> adamw_torch"),
        ("PagedAdamW8bit", "Optimizer PagedAdamW8bit -> bitsandbytes.optim.AdamW8bit"),
        ("", "Use the same optimizer without paging"),
    ],
)
def test_the_unpaged_twin_is_named(name: str, title: str) -> None:
    facts = {"optimizer": name} if name else {}
    assert step("non-paged-optimizer", "managed_memory_limit", BNB, facts=facts).title == title


def test_unified_memory_says_how_much_is_over() -> None:
    numbers = {
        "allocated_bytes": 37 * 2**29,  # 18.50 GiB
        "other_allocations_bytes": 2**30,
        "allowed_bytes": 20 * 2**30,
        "requested_bytes": 2**30,
    }
    made = step("smaller-profile", "unified_memory_limit", MPS, numbers, facts={"batch_size": 4})
    assert "at least 512.00 MiB has to go" in made.text  # 18.5 + 1 + 1 - 20 GiB
    assert made.title == "Micro-batch 4 -> 2; keep the watermark"
    one = step("smaller-profile", "unified_memory_limit", MPS, numbers, facts={"batch_size": 1})
    assert "micro-batch from" not in one.text
    assert "=0.0" not in one.text + one.paste


def test_a_kernel_that_is_too_large_gets_smaller_blocks() -> None:
    numbers = {"required_bytes": 270336, "hardware_limit_bytes": 232448}
    made = step("not-memory", "not_an_oom", TRITON, numbers)
    assert "270336" in made.text
    assert "num_stages" in made.paste


def test_a_garbage_size_points_at_the_first_error() -> None:
    text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."
    assert "first error on any rank" in step("not-memory", "not_an_oom", text).text


def test_unsupported_managed_memory_gets_the_unpaged_optimizer() -> None:
    text = BNB.replace("out of memory", "operation not supported")
    made = step("not-memory", "not_an_oom", text, facts={"optimizer": "paged_adamw_8bit"})
    assert made.code == "not-memory"
    assert "adamw_bnb_8bit" in made.paste
