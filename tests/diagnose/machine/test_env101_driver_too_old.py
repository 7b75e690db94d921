"""Minor-version compatibility: docs.nvidia.com/deploy/cuda-compatibility. 11.x needs 450.80.02, 12.x 525.60.13,
13.x 580; on Windows and in WSL 452.39, 528.33 and 580."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oomph.diagnose.machine.checks.env101_driver_too_old import DriverTooOld
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, TorchBuild
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
    variables,
)

A100 = "NVIDIA A100-SXM4-80GB"


def made(driver: str, cuda: str, *names: str, version: str = "2.3.1", **values: Any) -> Environment:
    return environment(
        drivers=(told(driver),), torch=torch(version, cuda=cuda), cards=cards(*names or (A100,)), **values
    )


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("460.32.03", "11.8"),
        ("450.80.02", "11.8"),
        ("470.57.02", "11.7"),
        ("450.51.06", "11.0"),
        ("525.60.13", "12.9"),
        ("535.104.05", "12.1"),
        ("580.65.06", "13.0"),
        ("580.65.06", "13.2"),
        # newer drivers run all older builds
        ("595.58.03", "12.4"),
        ("550.54.15", "11.3"),
        ("525.85.12", "10.2"),
    ],
)
def test_a_driver_that_runs_it(driver: str, cuda: str) -> None:
    says = clear(DriverTooOld, made(driver, cuda))
    assert driver in says
    assert cuda in says


@pytest.mark.parametrize(
    ("driver", "cuda", "least"),
    [
        ("450.51.06", "11.8", "450.80.02"),
        ("470.223.02", "12.1", "525.60.13"),
        ("525.60.11", "12.1", "525.60.13"),
        ("525.147.05", "13.0", "580"),
        ("575.57.08", "13.0", "580"),
        ("418.67", "10.2", "440.33"),
    ],
)
def test_a_driver_that_does_not(driver: str, cuda: str, least: str) -> None:
    found = problem(DriverTooOld, made(driver, cuda))
    assert found.severity is ERROR
    assert found.certainty is Certainty.CERTAIN
    assert driver in found.says
    assert least in found.says


def test_what_need_not_match_is_said() -> None:
    says = clear(DriverTooOld, made("535.104.05", "12.4", driver_cuda=told("12.2")))
    assert "need not match" in says
    assert "12.2" in says


def test_the_way_out_is_a_build_that_the_driver_runs() -> None:
    found = problem(DriverTooOld, made("470.223.02", "12.1", version="2.1.2"))
    assert found.paste == "pip install 'torch==2.1.2' --index-url https://download.pytorch.org/whl/cu118"
    assert "cuda-compat-12-1" in found.fix  # data-centre cards only
    found = problem(DriverTooOld, made("470.223.02", "12.1", "NVIDIA GeForce RTX 3090", version="2.1.2"))
    assert "does not work on GeForce" in found.fix


def test_the_other_build_has_code_for_the_card() -> None:
    # An RTX 5090 with driver 570 (CUDA 12.8) and a CUDA 13 build: cu128 has sm_120, cu126 has not.
    found = problem(DriverTooOld, made("570.124.06", "13.0", "NVIDIA GeForce RTX 5090", version="2.11.0"))
    assert found.paste.endswith("whl/cu128")


def test_windows_has_its_own_numbers() -> None:
    wsl: dict[str, Any] = {"wsl": told(True)}
    assert clear(DriverTooOld, made("528.33", "12.1", **wsl))
    assert "528.33" in problem(DriverTooOld, made("527.99", "12.1", **wsl)).says
    windows: dict[str, Any] = {"system": told("Microsoft Windows 11 Pro")}
    assert "452.39" in problem(DriverTooOld, made("451.82", "11.8", **windows)).says


def test_a_compatibility_package_in_use() -> None:
    # nvidia-smi shows the CUDA of the libcuda that it finds: 13.0 beside driver 535 is cuda-compat's.
    says = clear(DriverTooOld, made("535.261.03", "13.0", driver_cuda=told("13.0")))
    assert "cuda-compat" in says
    found = problem(
        DriverTooOld, made("535.261.03", "13.0", "NVIDIA GeForce RTX 4090", driver_cuda=told("13.0"))
    )
    assert found.severity is ERROR


def test_an_image_of_nvidias_may_bring_one() -> None:
    image = told("nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04")
    found = problem(DriverTooOld, made("470.223.02", "12.1", images=(image,)))
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)
    # an image of an older CUDA brings none for this one, and other images bring none
    for name in ("nvidia/cuda:11.8.0-base-ubuntu22.04", "pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime"):
        assert problem(DriverTooOld, made("470.223.02", "12.1", images=(told(name),))).severity is ERROR
    # and GeForce cards do not support it
    geforce = made("470.223.02", "12.1", "NVIDIA GeForce RTX 3090", images=(image,))
    assert problem(DriverTooOld, geforce).severity is ERROR


def test_a_compat_folder_in_the_library_path_may_do_it() -> None:
    path = variables(LD_LIBRARY_PATH="/usr/local/cuda-12.1/compat:/usr/lib")
    found = problem(DriverTooOld, made("470.223.02", "12.1", variables=path))
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)


def test_pytorchs_own_word_counts_more() -> None:
    build = TorchBuild(QUOTE, version="2.11.0", cuda="13.0", available=True)
    assert "is_available() is True" in clear(
        DriverTooOld, environment(drivers=(told("535.261.03"),), torch=(build,), cards=cards(A100))
    )


def test_a_line_of_an_image_is_judged_with_less_certainty() -> None:
    wanted = TorchBuild(QUOTE, version="2.3.1", local="cu121", wanted=True)
    host = environment(drivers=(told("470.223.02"),), torch=(wanted,), cards=cards(A100))
    assert problem(DriverTooOld, host).certainty is Certainty.LIKELY
    # without a tag it is PyPI's build: 12.1 for 2.3, 13.0 for 2.11
    plain = replace(host, torch=(TorchBuild(QUOTE, version="2.11.0", wanted=True),))
    assert "CUDA 13.0" in problem(DriverTooOld, plain).says
    # of a nightly or a source build PyPI says nothing
    nightly = replace(host, torch=(TorchBuild(QUOTE, version="2.11.0.dev20260101", wanted=True),))
    assert untold(DriverTooOld, nightly)
    # an installed one counts before what a file asks for
    both = replace(host, torch=(wanted, TorchBuild(QUOTE, version="2.3.1", local="cu118")))
    assert "11.8" in clear(DriverTooOld, both)


def test_the_version_of_the_cuda_runtime_package_tells_the_build() -> None:
    packages = {"nvidia-cuda-runtime-cu12": (told("12.1.105"),)}
    made_of = environment(drivers=(told("470.57.02"),), torch=torch("2.3.1"), packages=packages)
    assert "CUDA 12.1" in problem(DriverTooOld, made_of).says


def test_only_the_drivers_cuda_is_told() -> None:
    def of(shown: str, cuda: str) -> Environment:
        return environment(driver_cuda=told(shown), torch=torch("2.3.1", cuda=cuda))

    assert "12.2" in clear(DriverTooOld, of("12.2", "12.4"))
    assert clear(DriverTooOld, of("13.0", "11.8"))
    found = problem(DriverTooOld, of("11.4", "12.1"))
    assert "525.60.13" in found.says


def test_what_cannot_be_told() -> None:
    assert "no driver version" in untold(DriverTooOld, environment(torch=torch("2.3.1", cuda="12.1")))
    assert "no PyTorch build" in untold(DriverTooOld, environment(drivers=(told("535.104.05"),)))
    # a build of a vendor, or of another kind of machine, is not PyPI's
    vendor = environment(drivers=(told("470.57.02"),), torch=torch("2.4.0a0", local="07cecf4168.nv24.05"))
    assert "torch.version.cuda" in untold(DriverTooOld, vendor)
    arm = environment(drivers=(told("470.57.02"),), torch=torch("2.3.1"), system=told("Linux-5.15-aarch64"))
    assert "torch.version.cuda" in untold(DriverTooOld, arm)
    assert "not in the table" in untold(DriverTooOld, made("610.43.02", "14.0"))
    assert "no driver version" in untold(DriverTooOld, made("unknown", "12.1"))


def test_nothing_to_look_at() -> None:
    assert not_here(DriverTooOld, environment())
    assert not_here(
        DriverTooOld, environment(torch=torch("2.3.1", local="cpu"), drivers=(told("470.57.02"),))
    )


def test_pytorchs_message() -> None:
    # torch.cuda._lazy_init: the number is 1000 * 11 + 10 * 4
    text = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update"
    said = environment(errors=(Quote("log", 3, text),), torch=torch("2.3.1", cuda="12.1"))
    found = problem(DriverTooOld, said)
    assert "CUDA 11.4" in found.says
    assert "525.60.13" in found.says
    assert problem(DriverTooOld, environment(errors=(Quote("log", 3, text),))).severity is ERROR
