"""The table of drivers, against arithmetic, the documents it names, and the facts beside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oomph.hardware.drivers import (
    at_least,
    builds_with,
    code_for,
    default_cuda,
    family_capability,
    minimum_driver,
    newest_cuda,
    numbers,
    table,
    torch_architectures,
    torch_release,
    xid,
)
from oomph.hardware.tables import all_gpus

_SHARED = Path(os.environ.get("OOMPH_CONFORMANCE", Path(__file__).parents[3] / "shared"))


def facts() -> Any:
    path = _SHARED / "facts" / "driver_cuda.json"
    if not path.is_file():
        return None
    return json.loads(path.read_text())


def test_numbers_of_what_is_printed() -> None:
    assert numbers("535.104.05") == (535, 104, 5)
    assert numbers("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build") == (
        550,
        90,
        7,
    )
    assert numbers("no number") == ()


def test_versions_are_compared_part_by_part() -> None:
    assert at_least("525.60.13", "525.60.13")
    assert at_least("525.105.17", "525.60.13")  # 105 is more than 60, as numbers
    assert not at_least("525.60.11", "525.60.13")
    assert at_least("580.65.06", "580")
    assert at_least("580", "580.0")


@pytest.mark.parametrize(
    ("cuda", "driver", "windows"),
    [
        # docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, and the release notes
        ("11.8", "450.80.02", "452.39"),
        ("11.1", "450.80.02", "452.39"),
        ("12.1", "525.60.13", "528.33"),
        ("12.9", "525.60.13", "528.33"),
        ("13.0", "580", "580"),
    ],
)
def test_minor_version_compatibility(cuda: str, driver: str, windows: str) -> None:
    least = minimum_driver(cuda)
    assert least is not None
    assert (least.driver, least.rule) == (driver, "minor-version compatibility")
    least = minimum_driver(cuda, windows=True)
    assert least is not None
    assert least.driver == windows


def test_a_toolkits_own_driver_may_be_older_than_the_rule() -> None:
    # 11.0.3 was shipped with 450.51.06, older than the 450.80.02 of the rule.
    least = minimum_driver("11.0")
    assert least is not None
    assert (least.driver, least.rule) == ("450.51.06", "its own driver")
    # Before CUDA 11 there is no such rule.
    least = minimum_driver("10.2")
    assert least is not None
    assert least.driver == "440.33"


def test_what_the_table_does_not_have() -> None:
    assert minimum_driver("14.0") is None
    assert minimum_driver("") is None
    assert minimum_driver("10.2", windows=True) is None
    assert newest_cuda("361.42") == ""
    assert newest_cuda("") == ""
    assert default_cuda("1.4.0") == ""
    assert default_cuda("2") == ""
    assert torch_architectures("2.3.1", "13.0") is None
    assert torch_release("2.3.9") is None
    assert family_capability("Quantum Card 1") is None
    assert xid(7) is None


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        # as nvidia-smi's first line shows them together
        ("460.32.03", "11.2"),
        ("470.223.02", "11.4"),
        ("525.85.12", "12.0"),
        ("535.104.05", "12.2"),
        ("550.54.15", "12.4"),
        ("570.124.06", "12.8"),
        ("580.95.05", "13.0"),
        # Windows has other numbers in the same branches
        ("537.58", "12.2"),
        ("552.22", "12.4"),
        ("566.36", "12.7"),
    ],
)
def test_the_drivers_own_cuda(driver: str, cuda: str) -> None:
    assert newest_cuda(driver) == cuda


def test_machine_code_runs_on_its_major_version() -> None:
    # CUDA programming guide, binary compatibility
    assert code_for(["sm_80"], (8, 6)) == "binary"
    assert code_for(["sm_80"], (8, 9)) == "binary"
    assert code_for(["sm_86"], (8, 0)) == ""
    assert code_for(["sm_80", "sm_86"], (9, 0)) == ""
    assert code_for(["sm_90"], (8, 9)) == ""
    assert code_for(["sm_100"], (10, 3)) == "binary"
    assert code_for(["sm_100"], (12, 0)) == ""
    assert code_for(["sm_120"], (12, 1)) == "binary"


def test_ptx_runs_on_everything_newer() -> None:
    assert code_for(["sm_80", "compute_80"], (9, 0)) == "ptx"
    assert code_for(["compute_90"], (8, 9)) == ""
    assert code_for(["compute_120"], (10, 3)) == ""
    assert code_for(["compute_90", "sm_100"], (10, 0)) == "binary"


def test_suffixes_bind_to_an_architecture_or_a_family() -> None:
    assert code_for(["sm_90a"], (9, 0)) == "binary"
    assert code_for(["sm_100a"], (10, 3)) == ""
    assert code_for(["compute_90a"], (10, 0)) == ""
    assert code_for(["sm_100f"], (10, 3)) == "binary"
    assert code_for(["sm_100f"], (12, 0)) == ""
    assert code_for(["gfx942", "", "sm_"], (9, 0)) == ""


@pytest.mark.parametrize(
    ("version", "cuda", "printed"),
    [
        # torch.cuda.get_arch_list() as printed: pytorch/pytorch issue 182250, issue 157549, pull request 158700
        ("2.11.0", "12.6", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"),
        ("2.11.0", "12.8", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        ("2.10.0", "12.8", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        ("2.7.1", "12.8", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"),
        ("2.5.1", "12.4", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"),
        ("1.12.1", "11.6", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"),
        ("2.14.1", "13.0", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
    ],
)
def test_architectures_of_official_builds(version: str, cuda: str, printed: str) -> None:
    found = torch_architectures(version, cuda)
    assert found is not None
    assert found.checked
    assert " ".join(found.architectures) == printed


def test_blackwell_needs_cuda_12_8() -> None:
    for its in ((10, 0), (12, 0)):
        found = builds_with(its)
        assert min(numbers(one.cuda) for one in found) == (12, 8)
        assert min(numbers(one.torch) for one in found) == (2, 7)


def test_no_cuda_13_build_has_code_for_volta() -> None:
    assert all(numbers(one.cuda) < (13,) for one in builds_with((7, 0)))


def test_default_builds() -> None:
    # advice.md and the wheels' metadata: 11.7, 12.1, 12.4, 12.6, 12.8, 13.0
    assert [default_cuda(one) for one in ("2.0.1", "2.1.0", "2.4.1", "2.5.0", "2.6.0", "2.7.0")] == [
        "11.7", "12.1", "12.1", "12.4", "12.4", "12.6",
    ]  # fmt: skip
    assert [default_cuda(one) for one in ("2.8.0", "2.10.0", "2.11.0", "2.14.1")] == [
        "12.8",
        "12.8",
        "13.0",
        "13.0",
    ]


def test_every_build_runs_on_some_driver_and_its_parts_are_named() -> None:
    for one in table().builds:
        assert minimum_driver(one.cuda) is not None
        assert all(word.startswith(("sm_", "compute_")) for word in one.architectures)
        assert code_for(one.architectures, (8, 0)) == "binary"


def test_families_of_names_agree_with_the_table_of_gpus() -> None:
    for one in all_gpus():
        if one.is_cuda:
            found = family_capability(one.name)
            assert found in (None, one.capability), one.name


def test_families_of_cards_that_the_table_does_not_have() -> None:
    # developer.nvidia.com/cuda-gpus
    assert family_capability("Tesla K80") == (3, 7)
    assert family_capability("Tesla M60") == (5, 2)
    assert family_capability("NVIDIA GeForce GTX 1070") == (6, 1)
    assert family_capability("NVIDIA RTX 2000 Ada Generation") == (8, 9)
    assert family_capability("Quadro RTX 3000") == (7, 5)
    assert family_capability("NVIDIA GeForce RTX 2050") == (8, 6)
    assert family_capability("NVIDIA RTX PRO 500 Blackwell Generation Laptop GPU") == (12, 0)
    assert family_capability("NVIDIA GeForce GTX 1660 Ti") == (7, 5)
    assert family_capability("NVIDIA GeForce RTX 5090 Laptop GPU") == (12, 0)
    assert family_capability("NVIDIA RTX PRO 6000 Blackwell Workstation Edition") == (12, 0)
    assert family_capability("NVIDIA A100-SXM4-40GB MIG 1g.5gb") == (8, 0)


def test_sources_are_named() -> None:
    named = table().sources
    rows: list[Any] = [*table().families, *table().toolkits, *table().branches, *table().torch]
    rows += [*table().builds, *table().cards]
    assert {one.source for one in rows} <= set(named)
    assert len({one.number for one in table().xids}) == len(table().xids)
    assert {one.blame for one in table().xids} <= {"application", "card", "link", "driver", "follows", "note"}
    assert {one.severity for one in table().xids} <= {"error", "warning", "note"}


@pytest.mark.parametrize(
    ("number", "blame"),
    [
        # NVIDIA's Xid catalogue: application errors, and what asks for a reset or a restart of the machine
        (13, "application"), (31, "application"), (43, "application"), (45, "follows"),
        (48, "card"), (63, "card"), (64, "card"), (74, "link"), (79, "card"), (92, "card"), (94, "card"),
        (95, "card"), (119, "driver"), (120, "driver"), (140, "card"),
    ],
)  # fmt: skip
def test_whose_an_xid_is(number: int, blame: str) -> None:
    found = xid(number)
    assert found is not None
    assert found.blame == blame
    assert found.means
    assert found.do


def test_the_facts_agree() -> None:
    known = facts()
    if known is None:
        pytest.skip("the facts are not beside the repository")
    shipped = {version: row["shipped_driver_linux"] for version, row in known["toolkits"].items()}
    assert {one.cuda: one.driver for one in table().toolkits} == shipped
    for row in known["pytorch"]["rows"]:
        release = torch_release(row["torch"])
        assert release is not None
        assert (release.cuda, release.cudnn, release.nccl) == (
            row["pypi_default_cuda"],
            row["cudnn"],
            row["nccl"] or "",
        )
        least = minimum_driver(row["pypi_default_cuda"])
        assert least is not None
        assert least.driver == row["min_driver_linux"]
    for row in known["minor_version_compat"]:
        major = int(row["cuda"].split(".")[0])
        family = next(one for one in table().families if one.major == major)
        assert family.linux == row["min_driver_linux"]
    for version, cudas in known["pytorch"]["alternate_cuda_builds_K"].items():
        for cuda in cudas:
            assert torch_architectures(version, cuda) is not None, (version, cuda)


def test_branches_agree_with_the_drivers_that_toolkits_ship() -> None:
    for one in table().toolkits:
        assert numbers(newest_cuda(one.driver))[:2] == numbers(one.cuda)[:2], one
