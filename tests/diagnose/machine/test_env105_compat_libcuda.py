"""CUDA's errors 803 and 804, and forward compatibility: docs.nvidia.com/deploy/cuda-compatibility."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.diagnose.machine.checks.env105_compat_libcuda import CompatLibcuda
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    told,
    variables,
)


def path(value: str, driver: str = "", *names: str, **values: Any) -> Environment:
    return environment(
        variables=variables(LD_LIBRARY_PATH=value),
        drivers=(told(driver),) if driver else (),
        cards=cards(*names),
        **values,
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Error 803: system has unsupported display driver / cuda driver combination", "803"),
        ("Error 804: forward compatibility was attempted on non supported HW", "804"),
        ("RuntimeError: CUDA driver is a stub library", "34"),
    ],
)
def test_errors(text: str, number: str) -> None:
    found = problem(CompatLibcuda, environment(errors=(Quote("log", 4, text),)))
    assert number in found.says
    assert (found.severity, found.certainty) == (ERROR, Certainty.CERTAIN)


def test_after_an_update_of_the_driver_they_are_another_checks() -> None:
    quotes = (
        Quote("log", 1, "Failed to initialize NVML: Driver/library version mismatch"),
        Quote("log", 4, "Error 804: forward compatibility was attempted on non supported HW"),
    )
    assert not_here(CompatLibcuda, environment(errors=quotes))


def test_geforce_does_not_support_it() -> None:
    found = problem(
        CompatLibcuda, path("/usr/local/cuda-13.0/compat:/x", "570.124.06", "NVIDIA GeForce RTX 4090")
    )
    assert found.severity is ERROR
    assert "GeForce" in found.says


def test_a_driver_that_needs_none() -> None:
    # Driver 550 knows CUDA 12.4: a libcuda of 12.1 before it is older.
    a100 = "NVIDIA A100-SXM4-80GB"
    found = problem(CompatLibcuda, path("/usr/local/cuda-12.1/compat", "550.54.15", a100))
    assert (found.severity, found.certainty) == (WARNING, Certainty.LIKELY)
    assert "12.4" in found.says
    says = clear(CompatLibcuda, path("/usr/local/cuda-13.0/compat", "550.54.15", a100))
    assert "13.0" in says


def test_an_unversioned_folder_is_a_possibility() -> None:
    found = problem(CompatLibcuda, path("/usr/local/cuda/compat"))
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)


def test_ngcs_images_name_a_folder_that_need_not_exist() -> None:
    says = clear(
        CompatLibcuda, path("/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/usr/local/nvidia/lib64")
    )
    assert "NVIDIA's images" in says


def test_stubs() -> None:
    found = problem(CompatLibcuda, path("/usr/local/cuda/lib64/stubs:/usr/local/cuda/lib64"))
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)


def test_what_stands_behind_the_drivers_own_folder_is_not_found_first() -> None:
    assert not_here(CompatLibcuda, path("/usr/lib/x86_64-linux-gnu:/usr/local/cuda/compat"))
    assert not_here(CompatLibcuda, path("/usr/local/nvidia/lib64:/usr/local/cuda/lib64/stubs"))


@pytest.mark.parametrize("value", ["", "/usr/local/cuda/lib64", "$LD_LIBRARY_PATH:/opt/lib", "::"])
def test_ordinary_paths(value: str) -> None:
    assert not_here(CompatLibcuda, path(value))


def test_no_variable() -> None:
    assert not_here(CompatLibcuda, environment())
