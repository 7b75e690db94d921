"""Expected readings: strtoll with base 0, as C defines it, which is what NCCL calls."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env402_nccl_bad_value import NcclBadValue
from oomph.diagnose.machine.nccl_values import number
from tests.diagnose.machine.built import (
    ERROR,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    told,
    untold,
    variables,
)


@pytest.mark.parametrize(
    ("text", "value", "whole"),
    [
        ("1", 1, True),
        ("4MB", 4, False),
        ("true", 0, False),
        ("0x10", 16, True),
        ("010", 8, True),
        ("08", 0, False),
        ("-2", -2, True),
        (" 7", 7, True),
        ('"1"', 0, False),
        ("4194304 ", 4194304, True),
        ("99999999999999999999", None, False),
        ("", None, True),
        ("1e6", 1, False),
    ],
)
def test_numbers_as_c_reads_them(text: str, value: int | None, whole: bool) -> None:
    read = number(text)
    assert (read.value, read.whole) == (value, whole)


def test_numbers_against_the_c_library_itself() -> None:
    import ctypes

    strtoll = ctypes.CDLL(None).strtoll
    strtoll.restype = ctypes.c_longlong
    for text in ("1", "4MB", "true", "0x1F", "010", "08", "-3x", "+5", " 12 ", "0", "00", "1_000", "1.5"):
        assert number(text).value == strtoll(text.encode(), None, 0), text


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("NCCL_P2P_DISABLE", "true", "NCCL reads 0"),
        ("NCCL_IB_DISABLE", "yes", "NCCL reads 0"),
        ("NCCL_IB_TIMEOUT", "32", "0 to 31"),
        ("NCCL_IB_TIMEOUT", "22s", "NCCL reads 22"),
        ("NCCL_IB_RETRY_CNT", "10", "0 to 7"),
        ("NCCL_CROSS_NIC", "3", "0 to 2"),
        ("NCCL_NTHREADS", "200", "steps of 32"),
        ("NCCL_MAX_NCHANNELS", "128", "1 to 64"),
        ("NCCL_SOCKET_NTHREADS", "32", "0 to 16"),
        ("NCCL_SOCKET_NTHREADS", "010", "octal: 8"),
        ("NCCL_P2P_LEVEL", "nvl", "capital"),
        ("NCCL_NET_GDR_LEVEL", "FAR", "LOC"),
        ("NCCL_DEBUG", "DEBUG", "VERSION"),
        ("NCCL_DEBUG", "1", "INFO"),
        ("NCCL_DEBUG_SUBSYS", "INIT,NETWORK", "NETWORK"),
        ("NCCL_SOCKET_FAMILY", "IPv4", "AF_INET"),
        ("NCCL_SOCKET_FAMILY", "af_inet", "AF_INET"),
        ("NCCL_WORK_FIFO_BYTES", "1000000", "power of two"),
        ("NCCL_SHM_DISABLE", "2", "neither 0 nor 1"),
    ],
)
def test_what_warns(name: str, value: str, says: str) -> None:
    found = problem(NcclBadValue, environment(variables=variables(**{name: value})))
    assert says in found.says
    assert found.severity is WARNING


def test_the_right_value_is_given() -> None:
    assert problem(NcclBadValue, environment(variables=variables(NCCL_P2P_DISABLE="true"))).paste == (
        "export NCCL_P2P_DISABLE=1"
    )
    assert problem(NcclBadValue, environment(variables=variables(NCCL_P2P_LEVEL="nvl"))).paste == (
        "export NCCL_P2P_LEVEL=NVL"
    )
    spaced = problem(NcclBadValue, environment(variables=variables(NCCL_ALGO="Ring, Tree")))
    assert spaced.paste == "export NCCL_ALGO=Ring,Tree"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_ALGO", "Rings"),
        ("NCCL_ALGO", "allgather_v:ring"),
        ("NCCL_ALGO", "ring;tree"),
        ("NCCL_PROTO", "LL256"),
        ("NCCL_PROTO", "^LL128,Fast"),
    ],
)
def test_choices_that_end_the_job(name: str, value: str) -> None:
    assert problem(NcclBadValue, environment(variables=variables(**{name: value}))).severity is ERROR


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_ALGO", "Ring"),
        ("NCCL_ALGO", "^tree"),
        ("NCCL_ALGO", "ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring"),
        ("NCCL_ALGO", "NVLSTree"),
        ("NCCL_PROTO", "simple"),
        ("NCCL_PROTO", "^LL128;allreduce:LL128"),
        ("NCCL_P2P_LEVEL", "NVL"),
        ("NCCL_P2P_LEVEL", "5"),
        ("NCCL_NET_GDR_LEVEL", "PIX"),
        ("NCCL_DEBUG", "info"),
        ("NCCL_DEBUG", "TRACE"),
        ("NCCL_DEBUG_SUBSYS", "INIT,NET"),
        ("NCCL_DEBUG_SUBSYS", "^ALLOC"),
        ("NCCL_CUMEM_ENABLE", "0"),
        ("NCCL_IB_TIMEOUT", "22"),
        ("NCCL_IB_RETRY_CNT", "7"),
        ("NCCL_NTHREADS", "256"),
        ("NCCL_MAX_NCHANNELS", "64"),
        ("NCCL_CROSS_NIC", "0"),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_IB_TC", "0x6a"),
        ("NCCL_SOCKET_FAMILY", "AF_INET6"),
    ],
)
def test_values_that_are_fine(name: str, value: str) -> None:
    clear(NcclBadValue, environment(variables=variables(**{name: value})))


def test_unknown_values_and_none() -> None:
    assert "NCCL_DEBUG" in untold(NcclBadValue, environment(variables=variables(NCCL_DEBUG=None)))
    assert not_here(
        NcclBadValue, environment(variables=variables(NCCL_SOCKET_IFNAME="eth0", NCCL_BUFFSIZE="x"))
    )


def test_a_choice_by_collective_for_an_older_nccl() -> None:
    choice = variables(NCCL_ALGO="allreduce:tree,ring")
    old = {"nvidia-nccl-cu12": (told("2.21.5"),)}
    assert "2.24" in problem(NcclBadValue, environment(variables=choice, packages=old)).says
    clear(NcclBadValue, environment(variables=choice, packages={"nvidia-nccl-cu12": (told("2.26.2"),)}))
    clear(NcclBadValue, environment(variables=variables(NCCL_ALGO="^tree"), packages=old))
