"""NCCL_P2P_DISABLE on GeForce cards is harmless, on cards with NVLink it is not."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env406_nccl_path_switched_off import NcclPathSwitchedOff
from tests.diagnose.machine.built import (
    WARNING,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
    told,
    untold,
    variables,
)

A100 = cards(*["NVIDIA A100-SXM4-40GB"] * 8)
RTX = cards(*["NVIDIA GeForce RTX 4090"] * 2)
P2P = variables(NCCL_P2P_DISABLE="1")


def test_p2p_where_there_is_nvlink() -> None:
    found = problem(NcclPathSwitchedOff, environment(variables=P2P, cards=A100))
    assert found.severity is WARNING
    assert found.paste == "unset NCCL_P2P_DISABLE"
    problem(NcclPathSwitchedOff, environment(variables=variables(NCCL_P2P_LEVEL="LOC"), cards=A100))


def test_p2p_where_it_costs_nothing() -> None:
    assert "RTX 4090" in clear(NcclPathSwitchedOff, environment(variables=P2P, cards=RTX))
    assert "one GPU" in clear(NcclPathSwitchedOff, environment(variables=P2P, cards=A100[:1]))


@pytest.mark.parametrize("value", ["0", "true", "", "2"])
def test_values_that_switch_nothing_off(value: str) -> None:
    """NCCL compares with 1 what strtol makes of the text."""
    clear(NcclPathSwitchedOff, environment(variables=variables(NCCL_P2P_DISABLE=value), cards=A100))


def test_cards_that_a_bridge_may_join() -> None:
    bridged = cards(*["NVIDIA GeForce RTX 3090"] * 2)
    assert "topo -m" in untold(NcclPathSwitchedOff, environment(variables=P2P, cards=bridged))


def test_host_memory_switched_off() -> None:
    problem(NcclPathSwitchedOff, environment(variables=variables(NCCL_SHM_DISABLE="1"), cards=RTX))


@pytest.mark.parametrize("made", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_the_network(made: dict[str, str]) -> None:
    there = environment(variables=variables(**made), rdma_devices=("mlx5_0", "mlx5_1"))
    assert "RDMA" in problem(NcclPathSwitchedOff, there).says
    clear(NcclPathSwitchedOff, environment("rdma_devices", variables=variables(**made)))
    clear(NcclPathSwitchedOff, environment(variables=variables(**made), machine_type=told("a2-highgpu-8g")))
    untold(NcclPathSwitchedOff, environment(variables=variables(**made)))
    alone = environment(
        variables=variables(**made), rdma_devices=("mlx5_0",), launches=(launch("torchrun", nodes=1),)
    )
    clear(NcclPathSwitchedOff, alone)


def test_none() -> None:
    assert not_here(NcclPathSwitchedOff, environment(variables=variables(NCCL_DEBUG="INFO")))
    untold(NcclPathSwitchedOff, environment(variables=variables(NCCL_P2P_DISABLE=None), cards=A100))
