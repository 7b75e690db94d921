"""Adam and AdamW: steppers against torch.optim's own classes on simulated memory, to the byte."""

from __future__ import annotations

import pytest

from oomph.predict.optimizers.adam import ForeachAdam, FusedAdam, LoopAdam
from tests.predict.optimizers.stepping import MIXED, of, parameters, real, said

CASES = [
    pytest.param("torch.optim.AdamW(params)", ForeachAdam(), id="adamw-foreach"),
    pytest.param("torch.optim.AdamW(params, amsgrad=True)", ForeachAdam(amsgrad=True), id="amsgrad"),
    pytest.param("torch.optim.Adam(params)", ForeachAdam(), id="adam"),
    pytest.param("torch.optim.Adam(params, weight_decay=0.1)", ForeachAdam(l2=True), id="adam-l2"),
    pytest.param("torch.optim.AdamW(params, capturable=True)", ForeachAdam(capturable=True), id="capturable"),
    pytest.param("torch.optim.AdamW(params, fused=True)", FusedAdam(), id="fused"),
    pytest.param(
        "torch.optim.AdamW(params, fused=True, amsgrad=True)", FusedAdam(amsgrad=True), id="fused-amsgrad"
    ),
    pytest.param("torch.optim.AdamW(params, foreach=False)", LoopAdam(), id="loop"),
    pytest.param(
        "torch.optim.AdamW(params, foreach=False, amsgrad=True)", LoopAdam(amsgrad=True), id="loop-amsgrad"
    ),
    pytest.param(
        "torch.optim.Adam(params, foreach=False, weight_decay=0.1)", LoopAdam(l2=True), id="loop-l2"
    ),
]


@pytest.mark.parametrize(("make", "stepper"), CASES)
@pytest.mark.parametrize("tensors", [of("float32"), of("bfloat16"), MIXED], ids=["fp32", "bf16", "mixed"])
def test_both_steps_are_those_of_torch(make, stepper, tensors):
    assert said(stepper, parameters(tensors)) == real(make, tensors)
