"""Who else is on the card, caps, pieces, graphs, NCCL, libraries."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Step
from oomph.phases import Phase
from oomph.remedy.actions import all_actions
from oomph.units import GIB, MIB
from tests.remedy.cases import CAPPED, FRAGMENTED, NEIGHBOUR, case_of, finding_of, sample


def step(
    code: str, cause: str, text: str = "", numbers: dict[str, int] | None = None, **case: object
) -> Step:
    made = case_of(text, **case) if text else case_of(**case)  # type: ignore[arg-type]
    return all_actions()[code].step(made, finding_of(cause, code, numbers=numbers))


def test_the_large_neighbour_is_named_and_the_bare_context_is_not() -> None:
    made = step("stop-process", "other_process", NEIGHBOUR)
    assert "pid 4242 (20.00 GiB)" in made.text
    assert "4300" not in made.text + made.paste
    assert "ps -o pid,user,lstart,cmd -p 4242" in made.paste


def test_without_a_pid_the_card_is_listed() -> None:
    made = step("stop-process", "other_process", numbers={"request_bytes": 5, "not_torch_bytes": 3 * GIB})
    assert "About 3.00 GiB of the card" in made.text
    assert "nvidia-smi --query-compute-apps" in made.paste
    assert "tasklist" in step("stop-process", "other_process", facts={"platform": "windows"}).paste
    assert "rocm-smi" in step("stop-process", "other_process", vendor="hip").paste


def test_ranks_get_their_own_device() -> None:
    assert "torch.cuda.set_device(device)" in step("set-device", "sibling_ranks_on_one_gpu").paste


def test_the_engines_new_share_leaves_what_was_missing() -> None:
    # 2.00 GiB asked, 1.00 GiB free of 39.50 GiB: 1 GiB is 2.5 %, with 2 % on top 0.60 becomes 0.55
    made = step("engine-memory", "colocated_engine", NEIGHBOUR, facts={"engine_utilization": "0.6"})
    assert "0.6" in made.text
    assert "1024.00 MiB were missing, which 0.55 would leave" in made.text
    assert "gpu_memory_utilization=0.55" in made.paste
    unknown = step("engine-memory", "colocated_engine", NEIGHBOUR)
    assert "<lower than now>" in unknown.paste


def test_expandable_segments_keep_the_other_settings() -> None:
    made = step(
        "expandable-segments", "fragmentation", FRAGMENTED, facts={"alloc_conf": "max_split_size_mb:128"}
    )
    assert made.paste == "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True"
    off = step(
        "expandable-segments", "fragmentation", FRAGMENTED, facts={"alloc_conf": "expandable_segments:False"}
    )
    assert off.paste == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert "9.00 GiB are reserved and not in use" in off.text
    assert "3.00 GiB" in off.text


@pytest.mark.parametrize("value", ["a:b; rm -rf /", "$(x):1", "x:1'"])
def test_a_setting_that_a_shell_would_read_is_not_pasted(value: str) -> None:
    made = step("expandable-segments", "fragmentation", FRAGMENTED, facts={"alloc_conf": value})
    assert made.paste == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


@pytest.mark.parametrize(
    "facts",
    [
        {"torch_version": "2.0.1"},
        {"alloc_conf": "backend:cudaMallocAsync"},
        {"engine_utilization": "0.5"},
        {"alloc_conf": "expandable_segments:True"},
    ],
)
def test_where_expandable_segments_are_no_option(facts: dict[str, str]) -> None:
    assert not all_actions()["expandable-segments"].applies(case_of(FRAGMENTED, facts=facts))
    assert all_actions()["expandable-segments"].applies(case_of(FRAGMENTED, facts={"torch_version": "2.1.0"}))


def test_shapes_say_what_share_is_lost() -> None:
    # 9 of 39 GiB
    assert "9.00 GiB (23 % of what is reserved)" in step("fixed-shapes", "fragmentation", FRAGMENTED).text


def test_a_cap_is_shown_with_its_numbers() -> None:
    made = step("remove-cap", "cap_or_driver_limit", CAPPED)
    assert "PyTorch may use 12.00 GiB of 24.00 GiB here" in made.text
    assert "11.00 GiB of the card were free" in made.text
    assert not all_actions()["remove-cap"].applies(case_of())
    assert all_actions()["remove-cap"].applies(case_of(facts={"memory_fraction": "0.5"}))


def test_the_same_allocation_is_tried_alone() -> None:
    made = step("driver-limit", "cap_or_driver_limit", CAPPED)
    assert str(2 * GIB) in made.paste  # 2.00 GiB asked
    assert "11.00 GiB were free and 2.00 GiB were refused" in made.text


def test_one_large_allocation_is_split() -> None:
    made = step("split-tensor", "cap_or_driver_limit", CAPPED, vendor="xpu")
    assert "of 2.00 GiB was refused while 11.00 GiB were free" in made.text
    assert "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS" in made.paste
    assert step("split-tensor", "cap_or_driver_limit", CAPPED).paste == ""


def test_graph_pools_are_named() -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of "
        "23.69 GiB of which 100.00 MiB is free. Including non-PyTorch memory, this process has 23.50 GiB memory in "
        "use. Of the allocated memory 22.00 GiB is allocated by PyTorch, with 9.50 GiB allocated in private pools "
        "(e.g., CUDA Graphs), and 200.00 MiB is reserved by PyTorch but unallocated."
    )
    made = step("compile-without-graphs", "cudagraph_compile_pool", text)
    assert "9.50 GiB are allocated in private pools" in made.text
    assert "max-autotune-no-cudagraphs" in made.paste


def test_growth_is_shown() -> None:
    made = step("detach-kept", "growth_over_steps", numbers={"first_bytes": 10 * GIB, "last_bytes": 22 * GIB})
    assert "from 10.00 GiB to 22.00 GiB" in made.text
    assert ".item()" in made.paste


NCCL = "node-1:7003:7310 [3] include/alloc.h:235 NCCL WARN Failed to CUDA calloc 4194304 bytes"


def test_nccl_gets_two_gib_of_the_printed_card() -> None:
    held = sample("reserved", 78 * GIB, 80 * GIB)
    made = step("nccl-headroom", "nccl_memory", NCCL, {"requested_bytes": 4 * MIB}, samples=[held])
    assert "NCCL asked for 4.00 MiB when PyTorch had reserved 78.00 GiB of 80.00 GiB" in made.text
    assert "set_per_process_memory_fraction(0.97, device)" in made.paste  # 78 / 80, rounded down
    assert "(0.95, device)" in step("nccl-headroom", "nccl_memory", NCCL).paste


BLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


def test_the_free_memory_decides_what_a_library_error_means() -> None:
    made = step("check-free-memory", "disguised_library_error", BLAS, {"left_bytes": 300 * MIB})
    assert "leaves 300.00 MiB" in made.text
    assert "mem_get_info" in made.paste
    follows = dict(made.outcomes)
    assert "micro-batch" in follows["If less than about 1 GiB is free"]
    assert "CUDA_LAUNCH_BLOCKING=1" in follows["If there is plenty"]


def test_expandable_segments_are_dropped_where_they_do_not_work() -> None:
    facts = {"alloc_conf": "expandable_segments:True", "platform": "wsl2"}
    made = step(
        "check-free-memory",
        "disguised_library_error",
        "RuntimeError: CUDA driver error: out of memory",
        facts=facts,
    )
    assert "unset expandable_segments" in dict(made.outcomes)["If there is plenty"]


NVML = (
    "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
    '"../c10/cuda/CUDACachingAllocator.cpp":995, please report a bug to PyTorch. '
)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"batch_size": 8}, "smaller micro-batch than 8"),
        ({"batch_size": 1}, "activation checkpointing"),
        ({}, "2.14"),
    ],
)
def test_an_nvml_assertion_is_an_oom_of_its_phase(facts: dict[str, int], said: str) -> None:
    made = step("treat-as-oom", "nvml_assert_masks_oom", NVML, phase=Phase.BACKWARD, facts=facts)
    assert said in made.text
    assert "of a backward pass" in made.text
    assert "nvidia-smi" in made.paste
