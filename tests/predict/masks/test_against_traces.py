"""Padded batches, and the memory-efficient kernel: every phase of a plan against a trace of transformers' own class."""

from __future__ import annotations

import pytest

from tests.predict.families.cases import expected, found
from tests.predict.masks.cases import CASES
from tests.predict.masks.efficient_cases import EFFICIENT


@pytest.mark.parametrize("case", [*CASES, *EFFICIENT], ids=lambda case: case.name)
def test_every_phase_is_within_one_percent(case):
    planned = found(case)
    for phase, size in expected(case).items():
        assert abs(planned[phase] / size - 1) <= 0.01, phase
