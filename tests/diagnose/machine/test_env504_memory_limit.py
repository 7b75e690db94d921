"""Shares by arithmetic: half of the RAM that belongs to the job's GPUs is the threshold."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env504_memory_limit import MemoryLimit
from oomph.units import GIB
from tests.diagnose.machine.built import (
    WARNING,
    cards,
    clear,
    environment,
    host,
    launch,
    not_here,
    problem,
    told,
    untold,
)

A100 = cards(*["NVIDIA A100-SXM4-40GB"] * 8)


def test_all_gpus_and_little_ram() -> None:
    """p4d.24xlarge: 8 GPUs and 1152 GiB."""
    made = environment(
        machine_type=told("p4d.24xlarge"), launches=(launch("sbatch", gpus=8, memory_bytes=40 * GIB),)
    )
    found = problem(MemoryLimit, made)
    assert found.severity is WARNING
    assert found.numbers == {"limit_bytes": 40 * GIB, "ram_bytes": 1152 * GIB}
    assert found.paste == "#SBATCH --mem=0"


def test_what_a_pod_may_ask_for() -> None:
    """a2-highgpu-8g has 680 GiB: nine tenths are 612."""
    made = environment(
        machine_type=told("a2-highgpu-8g"), launches=(launch("Kubernetes", gpus=8, memory_bytes=32 * GIB),)
    )
    assert problem(MemoryLimit, made).paste == "resources: {limits: {memory: 612Gi}}"


def test_both_sides_of_half_its_part() -> None:
    """2 of 8 GPUs of 800 GiB: its part is 200 GiB, half of it 100 GiB."""
    for size, fine in ((100 * GIB, True), (100 * GIB - 1, False)):
        made = environment(
            host=host(ram_bytes=800 * GIB),
            cards=A100,
            launches=(launch("sbatch", gpus=2, memory_bytes=size),),
        )
        assert bool(clear(MemoryLimit, made)) if fine else problem(MemoryLimit, made)


def test_more_than_there_is() -> None:
    made = environment(
        host=host(ram_bytes=64 * GIB), launches=(launch("Kubernetes", memory_bytes=128 * GIB),)
    )
    assert "more than there is" in problem(MemoryLimit, made).does
    group = environment(host=host(ram_bytes=64 * GIB, cgroup_limit_bytes=128 * GIB))
    clear(MemoryLimit, group)


def test_slurm_without_mem() -> None:
    assert "DefMem" in untold(MemoryLimit, environment(launches=(launch("sbatch", gpus=8),)))
    clear(MemoryLimit, environment(launches=(launch("sbatch", gpus=8, memory_bytes=0),)))


def test_others() -> None:
    assert not_here(MemoryLimit, environment(host=host(ram_bytes=64 * GIB)))
    untold(MemoryLimit, environment(launches=(launch("docker run", memory_bytes=GIB),)))
    clear(MemoryLimit, environment(host=host(ram_bytes=64 * GIB, cgroup_limit_bytes=8 * GIB)))
