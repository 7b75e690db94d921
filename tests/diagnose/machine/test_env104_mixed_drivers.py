"""Texts: nvidia-smi's "Failed to initialize NVML: Driver/library version mismatch", and the kernel's "API mismatch"."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env104_mixed_drivers import MixedDrivers
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Told
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    told,
    variables,
)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "NVRM: API mismatch: the client has the version 550.107.02, but",
        "NVRM: this kernel module has the version 550.90.07.  Please",
    ],
)
def test_a_text_that_says_it(text: str) -> None:
    made = environment(
        errors=(Quote("dmesg", 7, text),),
        drivers=(told("550.90.07"),),
        driver_libraries=(told("550.107.02"),),
    )
    found = problem(MixedDrivers, made)
    assert (found.severity, found.certainty) == (ERROR, Certainty.CERTAIN)
    assert "550.90.07" in found.says
    assert "550.107.02" in found.says
    assert (
        problem(MixedDrivers, environment(errors=(Quote("dmesg", 7, text),))).certainty is Certainty.CERTAIN
    )


def test_two_witnesses_of_one_text() -> None:
    found = problem(MixedDrivers, environment(drivers=(told("535.104.05"), told("535.183.01"))))
    assert (found.severity, found.certainty) == (ERROR, Certainty.LIKELY)


def test_two_files_may_be_of_two_machines() -> None:
    one = Told("535.104.05", Quote("a.txt", 1, ""))
    other = Told("550.54.15", Quote("b.txt", 1, ""))
    found = problem(MixedDrivers, environment(drivers=(one, other)))
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)


def test_the_same_version_in_other_words() -> None:
    says = clear(
        MixedDrivers,
        environment(
            drivers=(
                told("535.104.05"),
                told("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build"),
            )
        ),
    )
    assert "535.104.05" in says


def test_a_library_of_another_version() -> None:
    made = environment(drivers=(told("535.104.05"),), driver_libraries=(told("535.183.01"),))
    assert problem(MixedDrivers, made).certainty is Certainty.LIKELY


def test_nvml_prints_two_of_three_numbers() -> None:
    made = environment(drivers=(told("550.107.02"),), driver_libraries=(told("550.107"),))
    assert clear(MixedDrivers, made)


def test_the_library_of_a_compatibility_package_is_meant_to_be_newer() -> None:
    made = environment(
        drivers=(told("535.104.05"),),
        driver_libraries=(told("580.65.06"),),
        variables=variables(LD_LIBRARY_PATH="/usr/local/cuda-13.0/compat"),
    )
    assert not_here(MixedDrivers, made)


def test_wsl_shows_two_versions() -> None:
    made = environment(drivers=(told("552.22"),), driver_libraries=(told("550.76.01"),), wsl=told(True))
    assert not_here(MixedDrivers, made)


def test_one_witness_proves_nothing() -> None:
    assert not_here(MixedDrivers, environment(drivers=(told("535.104.05"),)))
    assert not_here(MixedDrivers, environment())
