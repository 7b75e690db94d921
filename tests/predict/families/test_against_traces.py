"""Encoders, image encoders and attention without a flash kernel: every phase of a plan against a trace of transformers'
own class."""

from __future__ import annotations

import pytest

from tests.predict.families.cases import CASES, expected, found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent(case):
    planned = found(case)
    for phase, size in expected(case).items():
        # The traced loop has made its images before the first forward, a plan counts them from there on.
        images = case.batch * 3 * case.config["image_size"] ** 2 * 4 if case.images and phase == "load" else 0
        if size - images:
            assert abs(planned[phase] / (size - images) - 1) <= 0.01, phase
