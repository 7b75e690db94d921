"""torch.utils.cpp_extension._check_cuda_version: another major version is refused, another minor one warned of."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env108_image_cuda import ImageCuda
from tests.diagnose.machine.built import NOTE, clear, environment, not_here, problem, told, torch


def test_another_minor_version() -> None:
    found = problem(ImageCuda, environment(toolkits=(told("12.4.131"),), torch=torch("2.3.1", cuda="12.1")))
    assert found.severity is NOTE
    assert "warning" in found.does


def test_another_major_version() -> None:
    found = problem(ImageCuda, environment(toolkits=(told("11.8"),), torch=torch("2.3.1", cuda="12.1")))
    assert found.severity is NOTE
    assert "refused" in found.does


def test_the_same() -> None:
    assert "12.1" in clear(
        ImageCuda, environment(toolkits=(told("12.1.105"),), torch=torch("2.3.1", cuda="12.1"))
    )


def test_nothing_to_compare() -> None:
    assert not_here(ImageCuda, environment(toolkits=(told("12.1"),)))
    assert not_here(ImageCuda, environment(torch=torch("2.3.1", cuda="12.1")))
    assert not_here(ImageCuda, environment(toolkits=(told("12.1"),), torch=torch("2.3.1", local="cpu")))
    assert not_here(ImageCuda, environment(toolkits=(told("unknown"),), torch=torch("2.3.1", cuda="12.1")))
