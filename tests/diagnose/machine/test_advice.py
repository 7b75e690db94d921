"""Advice that people repeat and that is not so: each piece that a machine, its settings or a script can show is found
on a recorded one. What shows in a log alone, or in arithmetic, says where."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.conftest import ROOT
from tests.diagnose.machine.fixtures import MACHINES

DATA = ROOT / "tests" / "data"
#: Where the pieces of advice were collected and checked; it is not part of the repository.
COLLECTED = ROOT.parent / "shared" / "advice.md"


@dataclass(frozen=True)
class Shown:
    """A recorded machine ("machine") or script ("script") that shows a piece of advice under a code. `clean`: the code
    must not answer there, because following the belief would be the mistake."""

    kind: str
    fixture: str
    code: str
    clean: bool = False


@dataclass(frozen=True)
class Belief:
    """A piece of advice in a few words, where it is shown, and, where nothing shows it, what does tell."""

    words: str
    shown: tuple[Shown, ...] = ()
    elsewhere: str = ""


def machine(fixture: str, code: str) -> Shown:
    return Shown("machine", fixture, code)


def healthy(fixture: str, code: str) -> Shown:
    return Shown("machine", fixture, code, clean=True)


def script(fixture: str, code: str) -> Shown:
    return Shown("script", fixture, code)


def good(fixture: str, code: str) -> Shown:
    return Shown("script", fixture, code, clean=True)


BELIEFS = (
    Belief("a2-ultragpu is an H100", (machine("a2-ultragpu-taken-for-an-h100", "ENV302"),)),
    Belief(
        "an A100 40 GB has 40.00 GiB for PyTorch",
        elsewhere="log: the capacity in the message against the card's",
    ),
    Belief("0 bytes reserved beside 35 GiB allocated", elsewhere="log: the message contradicts itself"),
    Belief(
        "NCCL's result 2 is an unhandled CUDA error", elsewhere="log: the number and the name in one line"
    ),
    Belief(
        "FSDP puts the whole model on every rank",
        (
            script("fsdp1_cuda_before_wrap.py", "SCR107"),
            script("fsdp1_without_policy.py", "SCR110"),
            machine("sixteen-copies-of-70b-on-one-host", "ENV501"),
            good("fsdp2_on_meta.py", "SCR107"),
        ),
    ),
    Belief("more than 6 B parameters do not load into 40 GB", elsewhere="plan: parameters times bytes"),
    Belief("FSDP's shard size can be set", (script("fsdp1_shard_size.py", "SCR118"),)),
    Belief("activation checkpointing adds buffers", elsewhere="plan: the activations with and without it"),
    Belief(
        "ZeRO stage 2 is activation checkpointing", elsewhere="plan: what each of the two shards or drops"
    ),
    Belief(
        "SHARD_GRAD_OP needs less memory",
        (script("fsdp1_shard_grad_op_for_memory.py", "SCR112"), good("fsdp1_as_it_should_be.py", "SCR112")),
    ),
    Belief(
        "SHARD_FULL is a strategy",
        (script("fsdp1_shard_full.py", "SCR101"), script("accelerate_fsdp.yaml", "SCR101")),
    ),
    Belief(
        "cpu_offload takes True or False",
        (
            script("fsdp1_offload_true.py", "SCR102"),
            script("fsdp1_offload_false.py", "SCR102"),
            good("fsdp1_as_it_should_be.py", "SCR102"),
        ),
    ),
    Belief(
        "sync_module_states saves GPU memory",
        (
            script("fsdp1_sync_module_states_everywhere.py", "SCR111"),
            good("fsdp1_meta_on_other_ranks.py", "SCR111"),
        ),
    ),
    Belief(
        "torch.cuda.amp is how autocast is written",
        (
            script("amp_of_torch_cuda.py", "SCR104"),
            script("fsdp1_fp16_plain_scaler.py", "SCR109"),
            script("bf16_with_a_scaler.py", "SCR109"),
            good("fsdp1_sharded_scaler.py", "SCR109"),
            good("amp_of_today.py", "SCR104"),
        ),
    ),
    Belief(
        "autocast saves 30 to 40 % of the activations",
        elsewhere="plan: what autocast keeps in which precision",
    ),
    Belief(
        "CUDA 11.8 needs driver 525",
        (healthy("driver-460-torch-cu118", "ENV101"), machine("driver-510-torch-cu121", "ENV101")),
    ),
    Belief(
        "driver and toolkit must match",
        (
            healthy("new-driver-old-torch", "ENV101"),
            healthy("cuda-11.4-driver-and-cu118-wheel", "ENV101"),
            machine("cuda-11.8-image-torch-cu121", "ENV108"),
        ),
    ),
    Belief("CUDA 11.8 is PyTorch's default build", (machine("driver-470-pip-torch-2.1", "ENV101"),)),
    Belief(
        "NCCL_SOCKET_IFNAME may name NVLink",
        (
            machine("nvlink0-and-mlx5-on-an-a2", "ENV403"),
            healthy("ens8-is-there", "ENV403"),
            healthy("eth-as-a-prefix", "ENV403"),
        ),
    ),
    Belief(
        "NCCL_IB_HCA=mlx5_0 everywhere",
        (machine("nvlink0-and-mlx5-on-an-a2", "ENV404"), machine("one-of-eight-hcas-and-64-kib", "ENV404")),
    ),
    Belief(
        "NCCL's algorithm, sockets and buffers lessen fragmentation",
        (
            machine("nvlink0-and-mlx5-on-an-a2", "ENV407"),
            machine("nvlink0-and-mlx5-on-an-a2", "ENV405"),
            healthy("gke-h100-with-tcpx", "ENV407"),
        ),
    ),
    Belief("a saturated NVLink fragments memory", elsewhere="nothing: there is no such mechanism to be seen"),
    Belief(
        "memory after init_process_group is the weights' broadcast",
        (
            machine("t4-full-of-old-inference-processes", "ENV205"),
            machine("container-sees-31-gib-in-use", "ENV207"),
        ),
    ),
    Belief("memory_summary() is the profiler", (script("memory_summary_thrown_away.py", "SCR114"),)),
    Belief(
        "empty_cache() cures it",
        (
            script("empty_cache_every_step.py", "SCR113"),
            good("empty_cache_before_an_engine.py", "SCR113"),
        ),
    ),
    Belief(
        "a fraction of device 0 makes room",
        (
            script("ddp_fraction_of_device_0.py", "SCR103"),
            machine("fraction-of-one-half", "ENV414"),
            good("ddp_set_device_helper.py", "SCR103"),
        ),
    ),
    Belief(
        "expandable_segments cures it",
        (
            machine("expandable-segments-under-wsl2", "ENV412"),
            machine("expandable-segments-on-torch-2.0", "ENV411"),
            healthy("expandable-segments-on-linux", "ENV412"),
        ),
    ),
    Belief("max_split_size_mb cures it", (machine("threshold-without-a-cap", "ENV414"),)),
    Belief(
        "a failure in a recompute frame is checkpointing's",
        elsewhere="log: the frames, and what is alive then",
    ),
    Belief("reduce the batch", elsewhere="log: the phase decides whether the batch counts at all"),
    Belief(
        "little unallocated reserve proves a full card",
        (
            machine("memory-of-a-killed-process", "ENV206"),
            machine("t4-full-of-old-inference-processes", "ENV205"),
        ),
    ),
    Belief("the request's size is the tensor's", elsewhere="log: the message prints the segment"),
    Belief(
        '"Process N has" is a neighbour',
        (healthy("container-with-its-own-job-running", "ENV205"),),
    ),
)


@pytest.mark.parametrize("belief", BELIEFS, ids=lambda belief: belief.words)
def test_a_belief_is_shown(belief: Belief) -> None:
    assert bool(belief.shown) != bool(belief.elsewhere)
    for shown in belief.shown:
        kind = "clean" if shown.clean else "faulty"
        if shown.kind == "machine":
            text = (MACHINES / kind / shown.fixture / "expected.json").read_text(encoding="utf-8")
            expected = json.loads(text)
            listed = expected["not"] if shown.clean else [*expected["findings"], *expected["notes"]]
            assert shown.code in listed, shown
        else:
            text = (DATA / "scripts" / kind / "expected.json").read_text(encoding="utf-8")
            codes = {entry["code"] for entry in json.loads(text)[shown.fixture]}
            assert (shown.code in codes) != shown.clean, shown


@pytest.mark.skipif(not COLLECTED.exists(), reason="the collected advice is not part of the repository")
def test_no_belief_is_left_out() -> None:
    rows = [line for line in COLLECTED.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(BELIEFS) == len(rows) - 1  # the table's head
