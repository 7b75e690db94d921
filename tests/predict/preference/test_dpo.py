"""DPO against traces of TRL's DPOTrainer: a copy of the model as reference, or the model with its adapters off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.predict.preference.cases import Case
from tests.predict.preference.running import NEAR, Tracer, planned

CASES = (
    Case("dpo-bf16", "dpo", batch=4, length=512, prompt=128, precision="bf16-autocast"),
    Case("dpo-fp32", "dpo", batch=4, length=512, prompt=128, precision="fp32-autocast"),
    Case("dpo-lora", "dpo", batch=4, length=512, prompt=128, precision="bf16-autocast", lora=True),
    Case(
        "dpo-precomputed",
        "dpo",
        batch=2,
        length=384,
        kv_heads=2,
        precision="bf16-autocast",
        settings={"precompute_ref_log_probs": True, "gradient_checkpointing": False},
        objective={"reference": "precomputed"},
    ),
    Case("kto-bf16", "kto", batch=4, length=512, prompt=128, precision="bf16-autocast"),
    Case("reward-bf16", "reward", batch=4, length=512, prompt=128, precision="bf16-autocast"),
    Case("reward-fp32", "reward", batch=4, length=256, prompt=128, precision="fp32-autocast"),
)


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("trl", reason="the trainer is TRL's")
    pytest.importorskip("peft", reason="adapters are PEFT's")
    process = Tracer()
    yield process
    process.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_dpo_is_within_one_percent_of_the_trace(case: Case, tracer: Tracer) -> None:
    traced, found = tracer.peaks(case), planned(case)
    # A trace takes a forward without gradients for evaluation: here it is the reference's.
    if "eval" in traced and case.objective.get("reference") != "precomputed":
        traced["forward"] = max(traced["forward"], traced["eval"])
    for phase in ("load", "forward", "backward", "optimizer"):
        assert abs(found[phase] / traced[phase] - 1) <= NEAR, phase
