"""Denoisers: every phase of a plan against a trace of diffusers' own class in the script's loop."""

from __future__ import annotations

import pytest

from tests.predict.diffusion.cases import CASES, expected, found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent(case):
    pytest.importorskip("diffusers")
    planned = found(case)
    for phase, size in expected(case).items():
        if phase != "load":
            assert abs(planned[phase] / size - 1) <= 0.01, phase
