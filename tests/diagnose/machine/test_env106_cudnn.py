"""Pins: metadata of the wheels (facts/driver_cuda.json). What PyTorch refuses: torch/backends/cudnn/__init__.py."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.diagnose.machine.checks.env106_cudnn import Cudnn
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    problems,
    told,
    torch,
    variables,
)


def made(installed: str, version: str = "2.4.1", cuda: str = "12.1", **values: Any) -> Environment:
    return environment(
        torch=torch(version, cuda=cuda, **values), packages={"nvidia-cudnn-cu12": (told(installed),)}
    )


def test_the_pinned_version() -> None:
    assert "9.1.0.70" in clear(Cudnn, made("9.1.0.70"))
    assert clear(Cudnn, made("9.1.0"))  # told to another depth


@pytest.mark.parametrize(
    ("installed", "refused"), [("8.9.2.26", True), ("9.0.0.1", True), ("9.5.1.17", False)]
)
def test_another_version(installed: str, refused: bool) -> None:
    found = problem(Cudnn, made(installed))
    assert found.severity is WARNING
    assert "9.1.0.70" in found.says
    assert ("refuses" in found.does) is refused
    assert found.paste == "pip install nvidia-cudnn-cu12==9.1.0.70"


def test_the_installed_metadata_counts_before_the_table() -> None:
    own = environment(
        torch=torch("2.4.1", cuda="12.1"),
        packages={"nvidia-cudnn-cu12": (told("9.5.1.17"),)},
        pins={"nvidia-cudnn-cu12": told("==9.5.1.17")},
    )
    assert "metadata" in clear(Cudnn, own)
    ranged = environment(
        torch=torch("2.4.1", cuda="12.1"),
        packages={"nvidia-cudnn-cu12": (told("9.1.0.70"),)},
        pins={"nvidia-cudnn-cu12": told(">=9,<10")},
    )
    assert "PyPI" in clear(Cudnn, ranged)


def test_nothing_is_known_of_other_builds() -> None:
    assert not_here(
        Cudnn, made("9.1.0.70", version="2.9.1", cuda="12.6")
    )  # what that build pins is not known
    assert not_here(Cudnn, made("8.9.0", version="2.4.0a0", local="1.nv24.05"))
    assert not_here(Cudnn, environment(torch=torch("2.4.1", cuda="12.1")))
    assert not_here(Cudnn, environment())


def test_two_packages_share_a_folder() -> None:
    both = environment(
        torch=torch("2.11.0", cuda="13.0"),
        packages={"nvidia-cudnn-cu12": (told("9.1.0.70"),), "nvidia-cudnn-cu13": (told("9.19.0.56"),)},
    )
    found = problem(Cudnn, both)
    assert "nvidia-cudnn-cu12 and nvidia-cudnn-cu13" in found.says


def test_another_copy_is_loaded() -> None:
    found = problem(Cudnn, made("9.1.0.70", cudnn="8.9.7"))
    assert "8.9.7" in found.says
    assert clear(Cudnn, made("9.1.0.70", cudnn="9.1.0"))


def test_newer_cudnn_has_nothing_for_volta() -> None:
    # refused from 9.11 on for capabilities below 7.5
    def on(name: str, version: str) -> Environment:
        return environment(cards=cards(name), torch=torch("2.9.9", cuda="12.8", cudnn=version))

    assert "9.11.0" in problem(Cudnn, on("Tesla V100-SXM2-32GB", "9.11.0")).says
    assert not_here(Cudnn, on("Tesla V100-SXM2-32GB", "9.10.2"))
    assert not_here(Cudnn, on("Tesla T4", "9.11.0"))


def test_a_folder_in_the_library_path() -> None:
    def path(value: str, **values: Any) -> Environment:
        return environment(variables=variables(LD_LIBRARY_PATH=value), **values)

    build = torch("2.0.1", local="cu118")
    found = problem(Cudnn, path("/apps/cudnn/v8.2.4.15-cuda.11.4/lib64:/usr/lib", torch=build))
    # RELEASE.md: the CUDA 11.8 build of 2.0 has 8.7.0.84
    assert "8.7.0.84" in found.says
    assert found.certainty is Certainty.LIKELY
    assert problem(Cudnn, path("/apps/cudnn/lib64", torch=build)).certainty is Certainty.POSSIBLE
    own = "/venv/lib/python3.10/site-packages/nvidia/cudnn/lib"
    assert not_here(Cudnn, path(own, torch=build))
    assert not_here(Cudnn, path("/apps/cudnn/lib64"))  # no PyTorch is told of


def test_pytorchs_message() -> None:
    text = "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 7, 0) but found"
    said = environment(errors=(Quote("log", 1, text),), torch=torch("2.0.1", local="cu118"))
    found = problems(Cudnn, said)[0]
    assert found.certainty is Certainty.CERTAIN
    assert "8.7.0.84" in found.says
