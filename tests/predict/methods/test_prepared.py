"""prepare_model_for_kbit_training without autocast: 4-bit layers give fp32 back, and all else is fp32."""

from __future__ import annotations

import pytest

from tests.predict.methods.cases import Case, expected, planned

CASES = (
    Case("nf4, prepared", quantized="nf4", prepared=True),
    Case("nf4, prepared, recomputed", quantized="nf4", prepared=True, recomputed=True),
    Case("nf4, prepared, autocast", quantized="nf4", prepared=True, precision="bf16-both"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent(case):
    found = planned(case)
    for phase, size in expected(case).items():
        assert abs(found[phase] / size - 1) <= 0.01, phase
