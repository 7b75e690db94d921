"""What is beside PyTorch's allocator on the GPU, and in the RAM of a node."""

from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.job.model import Framework, Hardware, Job, Optimizer, Parallel, Precision
from oomph.predict.host import host_of, pinned
from oomph.predict.outside import communicators, outside_of
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.units import GIB, MIB

#: 3 Mi elements that train in two units, 1 Mi that does not.
UNITS = [
    Unit("root", (UnitParameter("head", MIB, True, 2, 2, 2, shape=(1024, 1024)),)),
    Unit(
        "block",
        (
            UnitParameter("up", 2 * MIB, True, 2, 2, 2, shape=(2048, 1024)),
            UnitParameter("frozen", MIB, False, 2, 2, 2, shape=(1024, 1024)),
        ),
    ),
]


def job(strategy: str = "ddp", **more) -> Job:
    return Job(
        parallel=Parallel(strategy=strategy, data=4, **more.pop("parallel", {})),  # type: ignore[arg-type]
        optimizer=Optimizer(**more.pop("optimizer", {})),
        precision=Precision(weights="bf16", compute="bf16"),
        **more,
    )


def parts(host) -> dict[str, int]:
    return dict(host.parts)


def test_one_gpu_has_the_context_only():
    found = outside_of(Job())
    # From the first measured context to the largest: 273.75 MiB and 1.42 GiB (hardware/outside.json).
    assert (found.low_bytes, found.high_bytes) == (287047680, 1524713390)
    assert found.context_high_bytes == found.high_bytes


def test_each_group_of_ranks_is_a_communicator():
    assert communicators(Job()) == 0
    assert communicators(job("ddp")) == 1
    assert communicators(job("fsdp2_hybrid_shard")) == 2
    assert communicators(job("zero3")) == 2
    assert communicators(Job(parallel=Parallel(tensor=2, pipeline=2, context=2))) == 3
    found = outside_of(job("fsdp1_full_shard"))
    assert found.high_bytes - found.context_high_bytes == int(1.45 * GIB)
    assert found.low_bytes == outside_of(Job()).low_bytes


def test_hopper_has_buffers_in_the_switch_and_experts_exchange_with_all():
    hopper = outside_of(job("ddp", hardware=Hardware(gpu="h100-80gb")))
    assert ("NCCL, NVLink SHARP", 0, 288 * MIB) in hopper.parts
    ampere = outside_of(job("ddp", hardware=Hardware(gpu="a100-80gb")))
    assert hopper.high_bytes - ampere.high_bytes == 288 * MIB
    experts = outside_of(job("ddp", parallel={"expert": 2}))
    assert experts.high_bytes - ampere.high_bytes == int(1.45 * GIB) + 3_280_000_000


def test_a_gpu_of_another_maker_is_refused():
    with pytest.raises(UsageError, match="what its driver takes is not known"):
        outside_of(job("ddp", hardware=Hardware(gpu="mi300x")))


def test_each_rank_reads_its_own_copy():
    whole = 4 * MIB * 2
    assert parts(host_of(Job(), UNITS)) == {"weights at load": whole}
    found = host_of(job("ddp"), UNITS)
    assert (found.load_bytes, found.train_bytes) == (4 * whole, 0)
    assert host_of(job("ddp", hardware=Hardware(per_node=2)), UNITS).load_bytes == 2 * whole


def test_what_is_made_on_the_meta_device_takes_no_ram():
    assert host_of(job("fsdp2_full", framework=Framework(name="torchtitan")), UNITS).load_bytes == 0


def test_page_locked_memory_is_rounded_to_a_power_of_two():
    assert [pinned(size) for size in (0, 1, 2, 3, 4, 5, 1025)] == [0, 1, 2, 4, 4, 8, 2048]


def test_fsdp_keeps_shards_gradients_and_states():
    # Of 4 ranks: trained shards of 1 Mi and 2 Mi elements in bf16, a frozen one of 1 Mi.
    found = parts(host_of(job("fsdp2_full", parallel={"offload_parameters": True}), UNITS))
    shards = [2 * MIB // 4, 4 * MIB // 4, 2 * MIB // 4]
    assert found["pinned parameter shards"] == 4 * sum(shards)
    assert found["pinned gradient shards"] == 4 * (shards[0] + shards[1])
    assert found["optimizer states"] == 4 * 2 * 2 * 3 * MIB // 4  # two moments in bf16


def test_zero_keeps_masters_gradients_and_states():
    found = parts(host_of(job("zero2", optimizer={"offload": "cpu"}), UNITS))
    share = 3 * MIB // 4
    assert found["pinned fp32 masters and gradients"] == 4 * 2 * 4 * MIB  # 3 MiB rounded up to 4
    assert found["optimizer states"] == 4 * 2 * 4 * share
    assert found["pinned parameters on their way back"] == 4 * 2 * MIB  # 1.5 MiB rounded up
    assert found["pinned gradient on its way"] == 4 * 4 * MIB  # the largest parameter
    deep = parts(
        host_of(job("zero3", optimizer={"offload": "cpu"}, parallel={"offload_parameters": True}), UNITS)
    )
    assert deep["pinned gradient partitions"] == 4 * 2 * MIB
    assert deep["pinned parameter partitions"] == 4 * 2 * MIB
    assert deep["pinned frozen partitions"] == 4 * MIB // 2


def test_on_nvme_there_are_buffers_in_ram():
    found = parts(host_of(job("zero3", optimizer={"offload": "nvme"}), UNITS))
    assert found["pinned swap buffers of the optimizer"] == 4 * 4 * 4 * MIB
    assert "optimizer states" not in found


def test_an_optimizer_alone_may_be_on_the_host():
    found = parts(host_of(job("ddp", optimizer={"offload": "cpu", "state": "fp32"}), UNITS))
    assert found["pinned parameters and gradients"] == 4 * 2 * (2 + 4) * MIB
    assert found["optimizer states"] == 4 * 2 * 4 * 3 * MIB
    paged = parts(host_of(job("ddp", optimizer={"offload": "paged", "state": "int8"}), UNITS))
    assert paged["paged optimizer states, when moved out"] == 4 * 2 * 3 * MIB
