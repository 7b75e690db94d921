"""Names: NCCL's sources; what plugins of Google and Amazon read: their published samples."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env401_nccl_unknown_variable import NcclUnknownVariable
from tests.diagnose.machine.built import (
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    told,
    torch,
    untold,
    variables,
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("NCCL_DEBUGG", "NCCL_DEBUG"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_BUFSIZE", "NCCL_BUFFSIZE"),
        ("NCCL_MIN_CHANNELS", "NCCL_MIN_NCHANNELS"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("NCCL_AVOID_RECORD_STREAMS", "TORCH_NCCL_AVOID_RECORD_STREAMS"),
        ("NCCL_TOPO_FILES", "NCCL_TOPO_FILE"),
    ],
)
def test_the_nearest_name(typed: str, meant: str) -> None:
    found = problem(NcclUnknownVariable, environment(variables=variables(**{typed: "1"})))
    assert found.severity is WARNING
    assert meant in found.paste
    assert found.subject == typed


def test_a_name_that_people_believe_in() -> None:
    found = problem(NcclUnknownVariable, environment(variables=variables(NCCL_TIMEOUT="1800")))
    assert "init_process_group" in found.fix
    assert found.paste == "unset NCCL_TIMEOUT"


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG",
        "NCCL_FASTRAK_CTRL_DEV",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
        "NCCL_TUNER_CONFIG_PATH",
        "NCCL_USE_SNAP",
        "NCCL_ASYNC_ERROR_HANDLING",
        "NCCL_VERSION",
        "NCCL_LIB_DIR",
        "NCCL_MAX_NRINGS",
        "NCCL_NET_MERGE_LEVEL",
        "NCCL_NVLS_ENABLE",
    ],
)
def test_known_names(name: str) -> None:
    clear(NcclUnknownVariable, environment(variables=variables(**{name: "1"})))


def test_other_names_are_no_subject() -> None:
    others = variables(
        OFI_NCCL_PROTOCOL="RDMA", FI_PROVIDER="efa", UCX_TLS="tcp", SHARP_COLL_LOG_LEVEL="3", HOME="/"
    )
    assert not_here(NcclUnknownVariable, environment(variables=others))
    own = variables(NCCL_CONTAINER="nccl-tests:latest", NCCL_TEST_DIR="/opt", NCCL_ARGS="-b 8")
    assert not_here(NcclUnknownVariable, environment(variables=own))
    assert not_here(NcclUnknownVariable, environment())


def test_what_may_know_more_names() -> None:
    """Nothing near it: a newer NCCL or RCCL may have it. A mistyped name stays one."""
    newer = {"nvidia-nccl-cu13": (told("2.35.1"),)}
    odd, typo = variables(NCCL_WARP_DRIVE="1"), variables(NCCL_DEBUGG="INFO")
    problem(NcclUnknownVariable, environment(variables=odd))
    assert "2.35.1" in untold(NcclUnknownVariable, environment(variables=odd, packages=newer))
    assert "RCCL" in untold(NcclUnknownVariable, environment(variables=odd, torch=torch("2.6.0", hip="6.2")))
    problem(NcclUnknownVariable, environment(variables=typo, packages=newer))


def test_names_of_another_release() -> None:
    """NCCL_NVLS_ENABLE came with 2.17.1; NCCL_TREE_THRESHOLD went with 2.5."""
    old = {"nvidia-nccl-cu11": (told("2.14.3"),)}
    found = problem(NcclUnknownVariable, environment(variables=variables(NCCL_NVLS_ENABLE="0"), packages=old))
    assert "2.17.1" in found.says
    assert "2.14.3" in found.says
    new = {"nvidia-nccl-cu12": (told("2.21.5"),)}
    clear(NcclUnknownVariable, environment(variables=variables(NCCL_NVLS_ENABLE="0"), packages=new))
    gone = problem(
        NcclUnknownVariable, environment(variables=variables(NCCL_TREE_THRESHOLD="0"), packages=new)
    )
    assert "NCCL_ALGO" in gone.fix
