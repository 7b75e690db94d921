"""Defaults of `ulimit -l`: 64 KiB, and 8 MiB with systemd."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env503_memlock_limit import MemlockLimit
from oomph.units import GIB, KIB, MIB
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    WARNING,
    clear,
    environment,
    host,
    launch,
    not_here,
    problem,
    untold,
)

RDMA = ("mlx5_0",)


def test_with_rdma() -> None:
    for size in (64 * KIB, 8 * MIB):
        found = problem(MemlockLimit, environment(host=host(memlock_bytes=size), rdma_devices=RDMA))
        assert found.severity is ERROR
        assert found.numbers == {"memlock_bytes": size}
    large = environment(host=host(memlock_bytes=2 * GIB), rdma_devices=RDMA)
    assert problem(MemlockLimit, large).severity is WARNING
    alone = environment(
        host=host(memlock_bytes=8 * MIB), rdma_devices=RDMA, launches=(launch("torchrun", nodes=1),)
    )
    assert problem(MemlockLimit, alone).severity is NOTE


def test_where_it_does_not_matter() -> None:
    clear(MemlockLimit, environment("rdma_devices", host=host(memlock_bytes=64 * KIB)))
    clear(MemlockLimit, environment(host=host(memlock_bytes=-1), rdma_devices=RDMA))
    untold(MemlockLimit, environment(host=host(memlock_bytes=8 * MIB)))
    assert not_here(MemlockLimit, environment(rdma_devices=RDMA))


def test_what_a_container_asks_for_counts() -> None:
    made = environment(
        host=host(memlock_bytes=64 * KIB),
        rdma_devices=RDMA,
        launches=(launch("docker run", pinned_limit_bytes=-1),),
    )
    clear(MemlockLimit, made)
