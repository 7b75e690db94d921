"""Models with several stacks of layers: every phase of a plan against a trace of transformers' own class."""

from __future__ import annotations

import pytest

from tests.predict.families.stacked_cases import CASES, expected, found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent(case):
    planned = found(case)
    for phase, size in expected(case).items():
        if size:
            assert abs(planned[phase] / size - 1) <= 0.01, phase
