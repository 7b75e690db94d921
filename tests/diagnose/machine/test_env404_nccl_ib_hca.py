"""A2 of Google has no RDMA card (facts of clouds.json); matching as NCCL's net_ib/init.cc does it."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env404_nccl_ib_hca import NcclIbHca
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    WARNING,
    clear,
    environment,
    launch,
    not_here,
    problem,
    told,
    untold,
    variables,
)

EIGHT = tuple(f"mlx5_{number}" for number in range(8))
TWELVE = tuple(f"mlx5_{number}" for number in range(12))
SET = variables(NCCL_IB_HCA="mlx5_0")


def test_a_machine_without_rdma() -> None:
    by_list = problem(NcclIbHca, environment("rdma_devices", variables=SET))
    assert by_list.severity is ERROR
    by_type = problem(NcclIbHca, environment(variables=SET, machine_type=told("a2-highgpu-8g")))
    assert "a2-highgpu-8g has no RDMA network card" in by_type.says
    alone = environment("rdma_devices", variables=SET, launches=(launch("torchrun", nodes=1),))
    assert problem(NcclIbHca, alone).severity is WARNING


def test_a_container_without_the_hosts_devices() -> None:
    made = environment(
        "rdma_devices", variables=variables(NCCL_IB_HCA="mlx5", NCCL_NET="IB"), container=told("docker")
    )
    found = problem(NcclIbHca, made)
    assert found.paste == "--device=/dev/infiniband"
    assert "NCCL_NET=IB" in found.does


def test_nothing_is_claimed_of_an_unknown_machine() -> None:
    assert "/sys/class/infiniband" in untold(NcclIbHca, environment(variables=SET))


def test_one_of_eight() -> None:
    found = problem(NcclIbHca, environment(variables=SET, rdma_devices=EIGHT))
    assert found.severity is WARNING
    assert "of 8" in found.says
    assert "7 stay idle" in found.does


@pytest.mark.parametrize(
    "value", ["mlx5", "mlx5_", "^mlx5_7", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3", "mlx5_0:1,mlx5_1:1"]
)
def test_several_are_used(value: str) -> None:
    clear(NcclIbHca, environment(variables=variables(NCCL_IB_HCA=value), rdma_devices=EIGHT))


def test_the_only_one() -> None:
    clear(NcclIbHca, environment(variables=SET, rdma_devices=("mlx5_0",)))


def test_none_of_them() -> None:
    made = environment(variables=variables(NCCL_IB_HCA="=mlx4_0"), rdma_devices=EIGHT)
    assert problem(NcclIbHca, made).severity is ERROR


def test_a_prefix_takes_more_than_it_names() -> None:
    made = environment(variables=variables(NCCL_IB_HCA="mlx5_1"), rdma_devices=TWELVE)
    found = problem(NcclIbHca, made)
    assert found.severity is NOTE
    assert "mlx5_10, mlx5_11" in found.says
    assert found.paste == "export NCCL_IB_HCA==mlx5_1"


def test_efa_is_no_infiniband() -> None:
    made = environment(variables=SET, rdma_devices=("rdmap16s27",), machine_type=told("p4d.24xlarge"))
    assert "EFA" in problem(NcclIbHca, made).says


def test_no_variable() -> None:
    assert not_here(NcclIbHca, environment(rdma_devices=EIGHT))
    assert not_here(NcclIbHca, environment(variables=variables(NCCL_IB_HCA="")))
