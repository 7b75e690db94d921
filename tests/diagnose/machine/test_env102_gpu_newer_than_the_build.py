"""Binary and PTX compatibility: CUDA programming guide. The builds' lists: see tests/hardware/test_drivers.py."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env102_gpu_newer_than_the_build import GpuNewerThanTheBuild
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, Environment, TorchBuild
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    QUOTE,
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    told,
    torch,
    untold,
)


def made(
    name: str, *architectures: str, cuda: str = "12.1", driver: str = "", version: str = ""
) -> Environment:
    return environment(
        cards=cards(name),
        torch=torch(version, cuda=cuda, architectures=architectures),
        drivers=(told(driver),) if driver else (),
    )


@pytest.mark.parametrize(
    ("name", "architectures"),
    [
        ("NVIDIA A10G", ("sm_80",)),
        ("NVIDIA L4", ("sm_80", "sm_86")),
        ("NVIDIA H100 80GB HBM3", ("sm_80", "sm_90")),
        ("NVIDIA H100 80GB HBM3", ("sm_90a",)),
        ("NVIDIA B300 SXM6 AC", ("sm_100", "sm_120")),
        ("NVIDIA GB10", ("sm_120",)),
        ("NVIDIA GeForce GTX 1070", ("sm_50", "sm_60")),
    ],
)
def test_the_build_has_code_for_it(name: str, architectures: tuple[str, ...]) -> None:
    assert name in clear(GpuNewerThanTheBuild, made(name, *architectures))


@pytest.mark.parametrize(
    ("name", "architectures"),
    [
        ("NVIDIA H100 80GB HBM3", ("sm_80", "sm_86")),
        ("NVIDIA GeForce RTX 5090", ("sm_80", "sm_86", "sm_90")),
        ("NVIDIA GeForce RTX 5090", ("sm_90", "sm_100")),
        ("NVIDIA B200", ("sm_90a", "compute_90a")),
        ("NVIDIA B300 SXM6 AC", ("sm_100a",)),
        ("Tesla V100-SXM2-32GB", ("sm_75", "sm_80")),
        ("NVIDIA A100-SXM4-80GB", ("sm_86",)),
    ],
)
def test_it_has_none(name: str, architectures: tuple[str, ...]) -> None:
    found = problem(GpuNewerThanTheBuild, made(name, *architectures))
    assert found.severity is ERROR
    assert found.certainty is Certainty.CERTAIN
    assert "no kernel image" in found.does


def test_newer_cards_run_ptx_slowly() -> None:
    found = problem(GpuNewerThanTheBuild, made("NVIDIA H100 80GB HBM3", "sm_80", "compute_80"))
    assert found.severity is WARNING
    assert "only PTX (compute_80)" in found.says


def test_but_not_ptx_that_is_newer_than_the_driver() -> None:
    ptx = ("sm_80", "compute_80")
    found = problem(
        GpuNewerThanTheBuild, made("NVIDIA H100 80GB HBM3", *ptx, cuda="12.4", driver="535.104.05")
    )
    assert found.severity is ERROR
    assert "12.2" in found.says  # what driver 535 knows
    found = problem(
        GpuNewerThanTheBuild, made("NVIDIA H100 80GB HBM3", *ptx, cuda="12.1", driver="535.104.05")
    )
    assert found.severity is WARNING


def test_the_list_of_an_official_build_is_looked_up() -> None:
    found = problem(GpuNewerThanTheBuild, made("NVIDIA GeForce RTX 5090", cuda="12.4", version="2.6.0"))
    assert "sm_90" in found.says
    # The nearest build that has sm_120: 2.7 for CUDA 12.8.
    assert found.paste == "pip install 'torch==2.7.*' --index-url https://download.pytorch.org/whl/cu128"
    volta = problem(GpuNewerThanTheBuild, made("Tesla V100-SXM2-32GB", cuda="13.0", version="2.11.0"))
    # 2.11 has a build for CUDA 12.6 with sm_70 (pytorch/pytorch issue 182250)
    assert volta.paste == "pip install 'torch==2.11.0' --index-url https://download.pytorch.org/whl/cu126"
    assert "leave cards as old as this out" in volta.says
    assert "2.10" in clear(GpuNewerThanTheBuild, made("Tesla V100-SXM2-32GB", cuda="12.8", version="2.10.0"))


def test_what_was_looked_up_is_certain_for_the_projects_own_wheels_only() -> None:
    card = cards("NVIDIA GeForce RTX 5090")
    tagged = environment(cards=card, torch=torch("2.5.1", local="cu124"))
    assert problem(GpuNewerThanTheBuild, tagged).certainty is Certainty.CERTAIN
    # conda-forge's builds have no tag, and other architectures
    untagged = environment(cards=card, torch=torch("2.5.1", cuda="12.4"))
    assert problem(GpuNewerThanTheBuild, untagged).certainty is Certainty.LIKELY
    for version in ("2.5.1.post107", "2.5.0.dev20240801", "2.5.0a0"):
        assert untold(GpuNewerThanTheBuild, environment(cards=card, torch=torch(version, cuda="12.4")))


def test_what_is_proposed_runs_on_the_driver() -> None:
    # Driver 535 runs no CUDA 13 build; all of 12.8 it does (minor-version compatibility).
    found = problem(
        GpuNewerThanTheBuild,
        made("NVIDIA GeForce RTX 5090", cuda="12.4", version="2.6.0", driver="575.57.08"),
    )
    assert "cu128" in found.paste
    nothing = problem(
        GpuNewerThanTheBuild,
        made("NVIDIA GeForce RTX 5090", cuda="11.8", version="2.6.0", driver="470.57.02"),
    )
    assert nothing.paste == ""
    assert "the driver has to be new enough" in nothing.fix


def test_a_wanted_build_is_judged_with_less_certainty() -> None:
    build = TorchBuild(QUOTE, version="2.6.0", local="cu124", wanted=True)
    found = problem(GpuNewerThanTheBuild, environment(cards=cards("NVIDIA GeForce RTX 5080"), torch=(build,)))
    assert found.certainty is Certainty.LIKELY


def test_what_cannot_be_told() -> None:
    assert "get_arch_list" in untold(GpuNewerThanTheBuild, environment(cards=cards("NVIDIA A10")))
    assert "nvidia-smi -L" in untold(GpuNewerThanTheBuild, environment(torch=torch("2.3.1", cuda="12.1")))
    assert "get_device_capability" in untold(GpuNewerThanTheBuild, made("NVIDIA GeForce ...", "sm_80"))
    vendor = environment(cards=cards("NVIDIA A10"), torch=torch("2.4.0a0", local="1.nv24.05", cuda="12.4"))
    assert "get_arch_list" in untold(GpuNewerThanTheBuild, vendor)
    # desktop code does not run on Jetson (capability 8.7), although its major version is 8
    orin = Card(QUOTE, index=0, name="Orin", capability=(8, 7))
    assert untold(
        GpuNewerThanTheBuild, environment(cards=(orin,), torch=torch("2.3.1", architectures=("sm_80",)))
    )
    arm = environment(
        cards=cards("NVIDIA GH200 480GB"), torch=torch("2.6.0", cuda="12.6"), system=told("Linux aarch64")
    )
    assert untold(GpuNewerThanTheBuild, arm)


def test_nothing_to_look_at() -> None:
    assert not_here(GpuNewerThanTheBuild, environment())
    assert not_here(
        GpuNewerThanTheBuild,
        environment(torch=torch("2.3.1", local="rocm6.0"), cards=cards("AMD Instinct MI300X")),
    )


def test_pytorchs_message() -> None:
    text = (
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
        "installation."
    )
    found = problem(GpuNewerThanTheBuild, environment(errors=(Quote("log", 1, text),)))
    assert "sm_120" in found.says
    assert found.certainty is Certainty.CERTAIN
    bare = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    assert (
        problem(GpuNewerThanTheBuild, environment(errors=(Quote("log", 1, bare),))).certainty
        is Certainty.LIKELY
    )
    fits = environment(
        errors=(Quote("log", 1, bare),),
        cards=cards("NVIDIA A10"),
        torch=torch("2.3.1", cuda="12.1", architectures=("sm_80",)),
    )
    assert "extension" in problem(GpuNewerThanTheBuild, fits).says
