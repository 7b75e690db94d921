"""Matching: parseStringList and matchIfList of NCCL's src/misc/utils.cc."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env403_nccl_socket_ifname import NcclSocketIfname
from tests.diagnose.machine.built import (
    ERROR,
    clear,
    environment,
    interfaces,
    launch,
    not_here,
    problem,
    untold,
    variables,
)

TWO_NODES = (launch("sbatch", nodes=2),)
USUAL = interfaces("lo", "ens5", "docker0")


@pytest.mark.parametrize(
    "value", ["eth0", "nvlink0", "=en", "^lo,ens,docker", "mlx5_0", "10.0.0.4", "eth0,eth1"]
)
def test_nothing_matches(value: str) -> None:
    made = environment("interfaces", variables=variables(NCCL_SOCKET_IFNAME=value), interfaces=USUAL)
    found = problem(NcclSocketIfname, made)
    assert found.severity is ERROR
    assert value in found.says
    assert "no socket interface found" in found.does
    assert "ens5" in found.paste


@pytest.mark.parametrize("value", ["ens5", "ens", "en,eth", "^docker,lo", "=ens5", "^=lo,docker0", "", "e"])
def test_what_matches(value: str) -> None:
    made = environment(
        "interfaces", variables=variables(NCCL_SOCKET_IFNAME=value), interfaces=USUAL, launches=TWO_NODES
    )
    clear(NcclSocketIfname, made)


def test_an_interface_that_is_down() -> None:
    made = environment(
        variables=variables(NCCL_SOCKET_IFNAME="ib0"),
        interfaces=interfaces("lo", "eno1", "ib0", down=("ib0",)),
    )
    found = problem(NcclSocketIfname, made)
    assert "ib0, which is not up" in found.says
    assert found.paste == "export NCCL_SOCKET_IFNAME=eno1"


@pytest.mark.parametrize("value", ["lo", "docker0", "docker,lo"])
def test_one_machine_only(value: str) -> None:
    one = environment("interfaces", variables=variables(NCCL_SOCKET_IFNAME=value), interfaces=USUAL)
    clear(NcclSocketIfname, one)
    two = environment(variables=variables(NCCL_SOCKET_IFNAME=value), interfaces=USUAL, launches=TWO_NODES)
    assert "runs on 2" in problem(NcclSocketIfname, two).says
    unlisted = environment(variables=variables(NCCL_SOCKET_IFNAME=value), launches=TWO_NODES)
    assert "runs on 2" in problem(NcclSocketIfname, unlisted).says


def test_an_exclusion_that_leaves_the_loopback_in() -> None:
    made = environment(
        variables=variables(NCCL_SOCKET_IFNAME="^docker0"), interfaces=USUAL, launches=TWO_NODES
    )
    found = problem(NcclSocketIfname, made)
    assert found.paste == "export NCCL_SOCKET_IFNAME='^lo,docker0'"


def test_without_a_list_of_interfaces() -> None:
    assert "ip -br addr" in untold(
        NcclSocketIfname, environment(variables=variables(NCCL_SOCKET_IFNAME="eth0"))
    )
    found = problem(NcclSocketIfname, environment(variables=variables(NCCL_SOCKET_IFNAME="nvlink0")))
    assert "NVLink is no network interface" in found.says
    assert found.paste == "unset NCCL_SOCKET_IFNAME"
    assert (
        "RDMA"
        in problem(NcclSocketIfname, environment(variables=variables(NCCL_SOCKET_IFNAME="mlx5_0"))).says
    )


def test_several_that_could_be_meant() -> None:
    made = environment(
        variables=variables(NCCL_SOCKET_IFNAME="eth0"), interfaces=interfaces("lo", "eno1", "ens5")
    )
    assert "eno1, ens5" in problem(NcclSocketIfname, made).fix


def test_unknown_value_and_no_variable() -> None:
    assert "does not say" in untold(
        NcclSocketIfname, environment(variables=variables(NCCL_SOCKET_IFNAME=None))
    )
    assert not_here(NcclSocketIfname, environment(interfaces=USUAL))
