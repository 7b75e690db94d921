"""Failures that are not the device allocator's own message: what is certain, what is only possible, what is not it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules import Match, rule_for
from oomph.evidence.model import GpuProcess, Kind, ProcessExit, Quote
from oomph.phases import Phase
from oomph.units import GIB, MIB, TIB, Amount
from tests.remedy.cases import OOM, case_of, sample

BARE = "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"
KILLED = "ERROR: failed (exitcode: -9) local_rank: 0 (pid: 412) of binary: /usr/bin/python"
BLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
NVML = (
    "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
    '"../c10/cuda/CUDACachingAllocator.cpp":1016, please report a bug to PyTorch. '
)
BNB = "Error out of memory at line 380 in file /build/bitsandbytes/csrc/pythonInterface.c"
BUS = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. "
CODES = {
    "nccl_memory",
    "disguised_library_error",
    "nvml_assert_masks_oom",
    "host_ram",
    "shm",
    "pinned_host_memory",
    "managed_memory_limit",
    "unified_memory_limit",
    "not_an_oom",
}


def match(cause: str, case: Case) -> Match | None:
    rule = rule_for(cause)
    assert rule is not None
    answer = rule.check(case)
    assert answer is None or isinstance(answer, Match)
    return answer


def found(cause: str, case: Case) -> Match:
    answer = match(cause, case)
    assert answer is not None
    return answer


@pytest.mark.parametrize("cause", sorted(CODES))
def test_a_message_of_the_allocator_with_numbers_is_none_of_these(cause: str) -> None:
    pinning = ("train.py", "main", "x = x.pin_memory()")
    assert (
        match(cause, case_of(OOM, frames=[pinning], facts={"platform": "wsl2", "offload": "cpu:param"}))
        is None
    )


@pytest.mark.parametrize("cause", sorted(CODES))
def test_every_rule_documents_itself(cause: str) -> None:
    rule = rule_for(cause)
    assert rule is not None
    for text in (rule.means, rule.decisive_evidence, rule.first_action, rule.verify, rule.wrong_advice):
        assert text.endswith(".")
        assert len(text) > 40
    assert rule.name == rule.name.lower().replace(" ", "-")


class TestHostRam:
    def test_the_cpu_allocators_bytes_are_certain(self) -> None:
        text = (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)"
        )
        answer = found("host_ram", case_of(text))
        assert answer.certainty is Certainty.CERTAIN
        assert answer.numbers["requested_bytes"] == 32 * GIB
        assert "32.00 GiB" in answer.says

    def test_a_size_that_no_machine_has_is_a_wrong_size(self) -> None:
        text = (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: "
            f"you tried to allocate {200 * TIB} bytes. Error code 12 (Cannot allocate memory)"
        )
        answer = found("host_ram", case_of(text))
        assert answer.certainty is Certainty.LIKELY
        assert "wrong" in answer.says

    @pytest.mark.parametrize(
        "text",
        [
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5544.0.",
            "[  812.4] Out of memory: Killed process 4711 (python) total-vm:98304kB",
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "    Reason:       OOMKilled",
        ],
    )
    def test_a_sender_that_names_memory_is_certain(self, text: str) -> None:
        assert found("host_ram", case_of(text)).certainty is Certainty.CERTAIN

    def test_a_bare_kill_is_only_possible_and_names_other_senders(self) -> None:
        answer = found("host_ram", case_of(KILLED))
        assert answer.certainty is Certainty.POSSIBLE
        for sender in ("preemption", "scancel", "watchdogs", "people"):
            assert sender in answer.says

    @pytest.mark.parametrize(
        ("percent", "certainty"), [("96.0", Certainty.LIKELY), ("60.0", Certainty.POSSIBLE)]
    )
    def test_full_host_memory_makes_a_kill_likely(self, percent: str, certainty: Certainty) -> None:
        case = case_of(KILLED, facts={"host_memory_percent": percent})
        assert found("host_ram", case).certainty is certainty

    @pytest.mark.parametrize(
        ("used", "limit", "certainty"),
        [
            (58 * GIB, "64G", Certainty.LIKELY),
            (30 * GIB, "64G", Certainty.POSSIBLE),
            (60 * GIB, "64Gi", Certainty.LIKELY),
        ],
    )
    def test_use_close_to_the_limit_makes_it_likely(
        self, used: int, limit: str, certainty: Certainty
    ) -> None:
        case = case_of(KILLED, facts={"host_limit": limit}, samples=[sample("host_used", used)])
        assert found("host_ram", case).certainty is certainty

    def test_growth_alone_stays_possible_and_is_told(self) -> None:
        samples = [sample("host_used", size * GIB) for size in (10, 20, 40)]
        answer = found("host_ram", case_of(KILLED, samples=samples))
        assert answer.certainty is Certainty.POSSIBLE
        assert "from 10.00 GiB to 40.00 GiB" in answer.says
        assert answer.weight > found("host_ram", case_of(KILLED)).weight

    def test_another_named_sender_weighs_against_it(self) -> None:
        text = (
            "slurmstepd: error: *** JOB 77 ON node-2 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
        )
        answer = found("host_ram", case_of(text + KILLED))
        assert answer.certainty is Certainty.POSSIBLE
        assert "TIME LIMIT" in answer.says
        assert answer.weight < found("host_ram", case_of(KILLED)).weight

    def test_a_process_that_the_launcher_stopped_weighs_little(self) -> None:
        case = case_of(KILLED)
        exit_ = ProcessExit(-9, case.group.start, Quote("train.log", 1, ""), pid=412, killer="launcher")
        stopped = Case(replace(case.evidence, exits=(exit_,)), case.group, case.phase_verdict)
        assert "look for the failure before it" in found("host_ram", stopped).says


class TestSharedMemory:
    def test_a_text_that_names_it_is_certain(self) -> None:
        remark = "It is possible that dataloader's workers are out of shared memory."
        assert found("shm", case_of(BUS + remark)).certainty is Certainty.CERTAIN

    def test_a_bus_error_alone_is_likely(self) -> None:
        assert found("shm", case_of(BUS)).certainty is Certainty.LIKELY

    def test_too_many_files_are_another_limit(self) -> None:
        text = (
            "RuntimeError: unable to open shared memory object </torch_9_1> in read-write mode: "
            "Too many open files (24)"
        )
        answer = found("shm", case_of(text))
        assert answer.certainty is Certainty.POSSIBLE
        assert "file descriptors" in answer.says


class TestPinned:
    @pytest.mark.parametrize(
        "frame",
        [
            ("/x/deepspeed/accelerator/cuda_accelerator.py", "pin_memory", "return tensor.pin_memory()"),
            ("/x/torch/utils/data/_utils/pin_memory.py", "pin_memory", "return data.pin_memory()"),
        ],
    )
    def test_a_frame_that_pins_is_likely_and_beats_the_full_card(self, frame: tuple[str, str, str]) -> None:
        case = case_of(BARE, frames=[("train.py", "main", "setup()"), frame])
        answer = found("pinned_host_memory", case)
        assert answer.certainty is Certainty.LIKELY
        assert found("disguised_library_error", case).certainty is Certainty.POSSIBLE

    def test_wsl2_raises_it(self) -> None:
        frames = [("train.py", "main", "x.pin_memory()"), ("host.py", "copy", "return lib.copy(x)")]
        plain = found("pinned_host_memory", case_of(BARE, frames=frames))
        wsl = found("pinned_host_memory", case_of(BARE, frames=frames, facts={"platform": "wsl2"}))
        assert wsl.weight > plain.weight
        assert "WSL2" in wsl.says

    def test_copies_of_an_offloading_program_are_only_possible(self) -> None:
        frame = ("offload.py", "move", "w.data = w.data.to(device, non_blocking=True)")
        assert found("pinned_host_memory", case_of(BARE, frames=[frame])).certainty is Certainty.POSSIBLE

    def test_a_bare_error_elsewhere_is_not_it(self) -> None:
        assert (
            match("pinned_host_memory", case_of(BARE, frames=[("train.py", "main", "y = model(x)")])) is None
        )
        assert match("pinned_host_memory", case_of(BARE)) is None


class TestDisguised:
    #: 10.80 GiB card: 9.60 GiB allocated + 270 MiB context leave 0.94 GiB; 7.00 GiB leave 3.5.
    @pytest.mark.parametrize(
        ("allocated", "certainty"),
        [
            (int(9.6 * GIB), Certainty.LIKELY),
            (7 * GIB, Certainty.POSSIBLE),
            (2 * GIB, Certainty.POSSIBLE),
        ],
    )
    def test_a_nearly_full_card_makes_a_library_error_likely(
        self, allocated: int, certainty: Certainty
    ) -> None:
        case = case_of(BLAS, samples=[sample("allocated", allocated, int(10.8 * GIB))])
        answer = found("disguised_library_error", case)
        assert answer.certainty is certainty
        assert answer.numbers["total_bytes"] == int(10.8 * GIB)

    def test_an_empty_card_speaks_against_it(self) -> None:
        case = case_of(BLAS, samples=[sample("allocated", 2 * GIB, 24 * GIB)])
        answer = found("disguised_library_error", case)
        assert "speaks against" in answer.says
        assert answer.weight < found("disguised_library_error", case_of(BLAS)).weight

    def test_without_figures_a_library_error_is_possible_and_the_drivers_words_are_likely(self) -> None:
        assert found("disguised_library_error", case_of(BLAS)).certainty is Certainty.POSSIBLE
        assert found("disguised_library_error", case_of(BARE)).certainty is Certainty.LIKELY

    def test_the_size_of_the_card_may_come_from_elsewhere(self) -> None:
        figure = sample("reserved", 23 * GIB + 512 * MIB)
        case = case_of(BLAS, samples=[figure], facts={"gpu_total_bytes": 24 * GIB})
        assert found("disguised_library_error", case).certainty is Certainty.LIKELY
        assert (
            found("disguised_library_error", case_of(BLAS, samples=[figure])).certainty is Certainty.POSSIBLE
        )

    def test_a_card_full_of_strangers_is_another_cause(self) -> None:
        case = case_of(BARE)
        row = GpuProcess(0, 901, "python3", Amount(39 * GIB), Quote("train.log", 1, ""))
        crowded = Case(replace(case.evidence, gpu_processes=(row,)), case.group, case.phase_verdict)
        answer = found("disguised_library_error", crowded)
        assert answer.certainty is Certainty.POSSIBLE
        assert answer.weight <= 0.1

    def test_training_steps_get_training_changes_next(self) -> None:
        assert "micro-batch" in found("disguised_library_error", case_of(BLAS, phase=Phase.FORWARD)).actions
        assert "micro-batch" not in found("disguised_library_error", case_of(BLAS, phase=Phase.LOAD)).actions

    def test_the_thc_era_and_nvml_belong_to_other_rules(self) -> None:
        old = "RuntimeError: cuda runtime error (2) : out of memory at /opt/conda/THCStorage.cu:58"
        assert match("disguised_library_error", case_of(old)) is None
        assert match("pinned_host_memory", case_of(old)) is None
        assert match("disguised_library_error", case_of(NVML)) is None


class TestOthers:
    def test_the_line_of_the_assertion_names_the_release(self) -> None:
        answer = found("nvml_assert_masks_oom", case_of(NVML, phase=Phase.BACKWARD))
        assert answer.certainty is Certainty.CERTAIN
        assert "line 1016: PyTorch 2.7" in answer.says
        assert answer.actions[:2] == ("treat-as-oom", "micro-batch")

    def test_nccl_says_its_size_and_what_pytorch_held(self) -> None:
        text = (
            "node-1:7003:7310 [3] include/alloc.h:235 NCCL WARN Failed to CUDA calloc 4194304 bytes\n"
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled cuda error"
        )
        answer = found("nccl_memory", case_of(text, samples=[sample("reserved", 78 * GIB)]))
        assert answer.certainty is Certainty.CERTAIN
        assert answer.numbers == {"requested_bytes": 4 * MIB, "reserved_bytes": 78 * GIB}
        assert "4.00 MiB" in answer.says
        assert "78.00 GiB" in answer.says

    def test_a_warning_of_nccl_alone_is_likely(self) -> None:
        text = "node-1:7003:7310 [3] enqueue.cc:1061 NCCL WARN Cuda failure 'out of memory'"
        assert found("nccl_memory", case_of(text)).certainty is Certainty.LIKELY

    def test_managed_memory_is_certain_and_unsupported_is_no_oom(self) -> None:
        assert found("managed_memory_limit", case_of(BNB)).certainty is Certainty.CERTAIN
        other = case_of(BNB.replace("out of memory", "operation not supported"))
        assert other.kind is Kind.NOT_MEMORY
        assert match("managed_memory_limit", other) is None
        assert found("not_an_oom", other).certainty is Certainty.CERTAIN

    def test_unified_memory_has_all_four_numbers(self) -> None:
        text = (
            "RuntimeError: MPS backend out of memory (MPS allocated: 18.50 GiB, other allocations: 448.00 KiB, max "
            "allowed: 18.72 GiB). Tried to allocate 512.00 MiB on shared pool."
        )
        answer = found("unified_memory_limit", case_of(text))
        assert answer.numbers == {
            "allocated_bytes": 37 * 2**29,
            "other_allocations_bytes": 448 * 2**10,
            "allowed_bytes": round(18.72 * GIB),
            "requested_bytes": 512 * MIB,
        }

    def test_tritons_shared_memory_is_on_the_chip(self) -> None:
        text = (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 270336, Hardware limit: "
            "232448. Reducing block sizes or `num_stages` may help."
        )
        answer = found("not_an_oom", case_of(text))
        assert answer.numbers == {"required_bytes": 270336, "hardware_limit_bytes": 232448}
        assert "264.00 KiB wanted, 227.00 KiB is the limit" in answer.says

    def test_counts_are_not_bytes(self) -> None:
        text = "triton.runtime.errors.OutOfResources: out of resource: threads, Required: 2048, Hardware limit: 1024."
        answer = found("not_an_oom", case_of(text))
        assert answer.numbers == {"required": 2048, "hardware_limit": 1024}
        assert "KiB" not in answer.says
