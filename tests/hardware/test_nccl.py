"""The table of NCCL's variables: spot checks against NVIDIA's user guide, and that it is whole."""

from __future__ import annotations

import pytest

from oomph.hardware.nccl import family_of, nccl_variables, nearest, torch_variables, version


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("NCCL_ALGO", (2, 5)),
        ("NCCL_NET_PLUGIN", (2, 11)),
        ("NCCL_CUMEM_ENABLE", (2, 18)),
        ("NCCL_NVLS_ENABLE", (2, 17)),
        ("NCCL_IB_QPS_PER_CONNECTION", (2, 10)),
        ("NCCL_RAS_ENABLE", (2, 24)),
        ("NCCL_SOCKET_NTHREADS", (2, 4)),
    ],
)
def test_releases_as_the_user_guide_has_them(name: str, since: tuple[int, int]) -> None:
    first = version(nccl_variables()[name].since)
    assert first is not None
    assert first[:2] == since


def test_the_table_is_whole() -> None:
    assert len(nccl_variables()) > 280
    for each in nccl_variables().values():
        assert each.name.startswith("NCCL_")
        assert version(each.since), each
        assert not each.until or version(each.until), each
        if each.type in ("word", "words", "algorithms", "protocols"):
            assert each.values, each
        if each.low is not None or each.multiple is not None:
            assert each.outside, each
        if each.renamed:
            assert each.renamed in nccl_variables(), each
        assert not family_of(each.name) or each.name.startswith(
            ("NCCL_TUNER_", "NCCL_PROFILE", "NCCL_INSPECTOR_")
        ), each


def test_torchs_names_and_their_older_ones() -> None:
    old = torch_variables()["NCCL_ASYNC_ERROR_HANDLING"]
    assert old.name == "TORCH_NCCL_ASYNC_ERROR_HANDLING"
    assert old.older == "NCCL_ASYNC_ERROR_HANDLING"


def test_families_and_the_nearest_name() -> None:
    assert "FasTrak" in family_of("NCCL_FASTRAK_NUM_FLOWS")
    assert family_of("NCCL_DEBUGG") == ""
    assert nearest("NCCL_SOCKET_IFNAM", nccl_variables()) == "NCCL_SOCKET_IFNAME"
    assert nearest("NCCL_QQQQQQ", nccl_variables()) == ""


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2.21.5", (2, 21, 5)), ("v2.21.5-1", (2, 21, 5)), ("2.21.5+cuda12.4", (2, 21, 5)), ("x", None)],
)
def test_versions(text: str, numbers: tuple[int, ...] | None) -> None:
    assert version(text) == numbers
