"""torch.version.cuda is None in CPU and ROCm builds."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env103_build_without_cuda import BuildWithoutCuda
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import TorchBuild
from tests.diagnose.machine.built import (
    QUOTE,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
    told,
    torch,
    untold,
)

FOUR = cards(*["NVIDIA GeForce RTX 3090"] * 4)


def test_a_cpu_build_beside_cards() -> None:
    found = problem(BuildWithoutCuda, environment(cards=FOUR, torch=torch("2.3.1", local="cpu", cuda=None)))
    assert "2.3.1" in found.says
    assert "4 x NVIDIA GeForce RTX 3090" in found.says
    assert found.certainty is Certainty.CERTAIN
    assert "torch==2.3.1" in found.paste


def test_the_proposed_build_runs_on_the_driver() -> None:
    made = environment(cards=FOUR, torch=torch("2.3.1", local="cpu"), drivers=(told("470.57.02"),))
    assert problem(BuildWithoutCuda, made).paste.endswith("whl/cu118")


def test_no_cuda_version_is_a_cpu_build_without_a_tag_too() -> None:
    problem(BuildWithoutCuda, environment(cards=FOUR, torch=torch("2.3.1", cuda=None)))


def test_a_rocm_build() -> None:
    found = problem(
        BuildWithoutCuda, environment(cards=FOUR, torch=torch("2.3.1", local="rocm6.0", cuda=None))
    )
    assert "ROCm 6.0" in found.says
    assert not_here(
        BuildWithoutCuda,
        environment(cards=cards("AMD Instinct MI300X"), torch=torch("2.3.1", local="rocm6.0", cuda=None)),
    )


def test_a_driver_or_gpus_asked_for_are_enough() -> None:
    build = TorchBuild(QUOTE, version="2.3.1", local="cpu", wanted=True)
    driver = environment(drivers=(told("535.104.05"),), torch=(build,))
    assert problem(BuildWithoutCuda, driver).certainty is Certainty.LIKELY
    asked = environment(launches=(launch("sbatch", gpus=4),), torch=(build,))
    assert problem(BuildWithoutCuda, asked).certainty is Certainty.LIKELY


def test_a_cuda_build() -> None:
    assert "CUDA 12.1" in clear(BuildWithoutCuda, environment(cards=FOUR, torch=torch("2.3.1", cuda="12.1")))
    # an untagged line of a file is no evidence of what will be installed
    assert not_here(BuildWithoutCuda, environment(cards=FOUR, torch=torch("2.3.1", wanted=True)))


def test_a_machine_without_cards() -> None:
    assert not_here(BuildWithoutCuda, environment("cards", torch=torch("2.3.1", local="cpu")))
    assert "nvidia-smi" in untold(BuildWithoutCuda, environment(torch=torch("2.3.1", local="cpu")))
    assert not_here(BuildWithoutCuda, environment())


def test_two_builds() -> None:
    both = (*torch("2.3.1", local="cpu"), *torch("2.3.1", cuda="12.1"))
    assert "torch.__version__" in untold(BuildWithoutCuda, environment(cards=FOUR, torch=both))
