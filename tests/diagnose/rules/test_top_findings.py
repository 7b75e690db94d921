"""One log for every rule in which it is the best finding, with its certainty and its first action; "
"and the registry."""

from __future__ import annotations

import re

import pytest

from oomph.diagnose.rules import all_rules, rule_for
from oomph.remedy.actions import all_actions
from tests.diagnose import logs
from tests.diagnose.logs import FORWARD, MODEL_TO, diagnosed, oom, traceback

BLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
NVML = (
    "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
    '"../c10/cuda/CUDACachingAllocator.cpp":1131, please report '
    "a bug to PyTorch."
)
NCCL = (
    "node1:4242:4301 [0] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 9437184 bytes\n"
    "node1:4242:4301 [0] misc/utils.cc:10 NCCL WARN Cuda failure 'out of memory'\n"
)
UNHANDLED = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, unhandled cuda error"
)
CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate "
    "memory: you tried "
    "to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"
)
BUS = (
    "RuntimeError: DataLoader worker (pid 412) is killed by signal: Bus error. It is possible that "
    "dataloader's workers "
    "are out of shared memory. Please try to raise your shared memory limit."
)
MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.10 GiB, other allocations: 612.00 "
    "MiB, max allowed: 18.13 "
    "GiB). Tried to allocate 1.00 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to "
    "disable upper limit "
    "for memory allocations (may cause system failure)."
)
BNB = "Error out of memory at line 380 in file /src/csrc/pythonInterface.c\n"
TRITON = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376. "
    "Reducing block sizes or `num_stages` may help."
)
PIN = ("train.py:88 in train: batch = batch.pin_memory()",)
BARE = "RuntimeError: CUDA error: out of memory"
EXITS = "torch.distributed.elastic.multiprocessing.api: failed (exitcode: -9) local_rank: 1 (pid: 4243) of binary: x\n"

#: code -> (log, certainty, first action) for the rules whose files do not show a whole log elsewhere.
WHOLE = {
    "OOM105": (NCCL + traceback(FORWARD, UNHANDLED), "certain", "nccl-headroom"),
    "OOM401": (traceback(FORWARD, BLAS), "possible", "check-free-memory"),
    "OOM402": (traceback(FORWARD, NVML), "certain", "treat-as-oom"),
    "OOM501": (traceback(MODEL_TO, CPU), "certain", "host-ram"),
    "OOM502": (traceback(FORWARD, BUS), "certain", "shm-size"),
    "OOM503": (traceback(PIN, BARE), "likely", "unpin"),
    "OOM504": (BNB, "certain", "non-paged-optimizer"),
    "OOM505": (traceback(FORWARD, MPS), "certain", "smaller-profile"),
    "OOM901": (traceback(FORWARD, TRITON), "certain", "not-memory"),
}


@pytest.mark.parametrize("code", sorted(WHOLE))
def test_the_best_finding_of_a_whole_log(code: str) -> None:
    log, certainty, action = WHOLE[code]
    best = diagnosed(log).findings[0]
    assert (best.code, str(best.certainty), best.actions[0]) == (code, certainty, action)


@pytest.mark.parametrize("code", sorted(WHOLE))
def test_none_of_them_speaks_of_an_ordinary_failure(code: str) -> None:
    assert code not in {one.code for one in diagnosed(traceback(FORWARD, oom())).findings}


def test_a_kill_alone_is_only_possible() -> None:
    best = diagnosed(EXITS).findings[0]
    assert (best.cause, str(best.certainty)) == ("host_ram", "possible")


def test_codes_and_names_are_unique_and_stable_in_form() -> None:
    rules = all_rules()
    assert len({rule.code for rule in rules}) == len(rules) >= 23
    assert len({rule.cause for rule in rules}) == len(rules)
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert re.fullmatch(r"OOM\d{3}", rule.code)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name), rule.name
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", rule.cause), rule.cause


CLASSES = """activations static_state_too_big fragmentation other_process sibling_ranks_on_one_gpu colocated_engine
logits_loss optimizer_memory resume_checkpoint checkpoint_save_gather eval_generation cudagraph_compile_pool
growth_over_steps nccl_memory disguised_library_error nvml_assert_masks_oom cap_or_driver_limit pinned_host_memory
managed_memory_limit host_ram shm unified_memory_limit not_an_oom"""


def test_every_class_of_failure_has_a_rule() -> None:
    assert {rule.cause for rule in all_rules()} >= set(CLASSES.split())


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_documentation_is_sentences(rule: object) -> None:
    for name in ("means", "decisive_evidence", "first_action", "verify", "wrong_advice"):
        text = getattr(rule, name)
        assert isinstance(text, str)
        assert len(text.split()) >= 5, name
        assert text == text.strip()
        assert "  " not in text
        assert text.endswith("."), name


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_actions_exist(rule: object) -> None:
    actions = getattr(rule, "actions", ())
    assert actions
    assert set(actions) <= set(all_actions())


def test_a_rule_is_found_by_code_cause_and_name() -> None:
    for rule in all_rules():
        for word in (rule.code, rule.code.lower(), rule.cause, rule.name, f" {rule.name.upper()} "):
            assert rule_for(word) is rule
    assert rule_for("OOM999") is None


def test_the_defaults_of_the_sample_message_add_up() -> None:
    # 1.05 + 78.10 = 79.15, and 78.10 - 76.40 - 1.10 = 0.60 GiB outside
    ledger = diagnosed(oom()).incident.ledger
    assert ledger.problems == ()
    assert ledger.outside_bytes is not None
    assert abs(ledger.outside_bytes - logs.gib(0.60)) <= 3 * logs.gib(0.005)
