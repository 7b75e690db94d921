"""Models with several stacks of layers: every phase of a plan against a trace of transformers' own class."""

from __future__ import annotations

import pytest

from tests.predict.families.stacked_cases import CASES, expected, found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent(case):
    planned = found(case)
    for phase, size in expected(case).items():
        if case.prepared and phase == "load":
            # prepare_model_for_kbit_training has weights twice for a moment, which ordinary loading has not.
            continue
        # The trace's first forward begins when the first images are there, a plan counts them from there on.
        images = case.batch * 3 * case.image**2 * 4 if case.image and phase == "load" else 0
        if size - images:
            assert abs(planned[phase] / (size - images) - 1) <= 0.01, phase
