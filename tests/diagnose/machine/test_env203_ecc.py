"""nvidia-smi -q: ECC Errors, Remapped Rows, Retired Pages. NVIDIA's GPU memory error management manual."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oomph.diagnose.machine.checks.env203_ecc import EccErrors
from oomph.evidence.environment.model import Environment
from tests.diagnose.machine.built import ERROR, WARNING, cards, clear, environment, not_here, problem, untold


def made(name: str = "NVIDIA A100-SXM4-80GB", **values: Any) -> Environment:
    return environment(cards=tuple(replace(one, **values) for one in cards(name)))


def test_remapping_failed() -> None:
    found = problem(EccErrors, made(ecc=True, ecc_uncorrected=11, remap_failed=True, remap_pending=False))
    assert found.severity is ERROR
    assert "11 uncorrectable memory errors" in found.says
    assert "replaced" in found.fix


def test_pending() -> None:
    found = problem(EccErrors, made(ecc=True, ecc_uncorrected=0, remap_failed=False, remap_pending=True))
    assert found.severity is WARNING
    assert "--gpu-reset -i 0" in found.paste
    found = problem(EccErrors, made(ecc=True, ecc_uncorrected=1, remap_failed=False, remap_pending=True))
    assert found.severity is ERROR
    assert "1 uncorrectable memory error," in found.says


def test_errors_that_were_repaired_and_those_of_which_it_is_not_told() -> None:
    found = problem(EccErrors, made(ecc=True, ecc_uncorrected=2, remap_failed=False, remap_pending=False))
    assert found.severity is WARNING
    found = problem(EccErrors, made(ecc=True, ecc_uncorrected=2))
    assert found.severity is ERROR
    assert found.numbers == {"uncorrectable_errors": 2}


def test_no_error() -> None:
    assert clear(EccErrors, made(ecc=True, ecc_uncorrected=0, remap_failed=False, remap_pending=False))


def test_consumer_cards_have_no_counts() -> None:
    # "N/A" in nvidia-smi is None here
    assert not_here(EccErrors, made("NVIDIA GeForce RTX 4090"))
    assert not_here(EccErrors, made("NVIDIA A10", ecc=False))
    assert "nvidia-smi -q -d ECC" in untold(EccErrors, made())
