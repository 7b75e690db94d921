"""GRPO and RLOO against traces of TRL's trainers, which generate with transformers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.predict.preference.cases import Case
from tests.predict.preference.running import NEAR, Tracer, planned

#: A trace takes every position for scored, as it does not know the labels' values: all but the first are, where a
#: prompt is one token.
CASES = (
    Case(
        "grpo-bf16",
        "grpo",
        batch=16,
        length=65,
        prompt=1,
        precision="bf16-autocast",
        settings={"num_generations": 8},
        objective={"completion": 64},
    ),
    Case(
        "grpo-reference",
        "grpo",
        batch=16,
        length=33,
        prompt=1,
        kv_heads=2,
        precision="fp32-autocast",
        settings={"num_generations": 8, "beta": 0.1},
        objective={"completion": 32, "reference": "copy"},
    ),
    Case(
        "grpo-accumulated",
        "grpo",
        batch=8,
        length=33,
        prompt=1,
        precision="bf16-autocast",
        lora=True,
        settings={"num_generations": 8, "beta": 0.1, "gradient_accumulation_steps": 4},
        objective={"completion": 32, "reference": "adapters_off"},
        accumulation=4,
    ),
)


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("trl", reason="the trainer is TRL's")
    pytest.importorskip("peft", reason="adapters are PEFT's")
    process = Tracer()
    yield process
    process.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent_of_the_trace(case: Case, tracer: Tracer) -> None:
    traced, found = tracer.peaks(case), planned(case)
    traced["forward"] = max(traced["forward"], traced.get("eval", 0))
    for phase in ("generate", "forward", "backward", "optimizer"):
        assert abs(found[phase] / traced[phase] - 1) <= NEAR, phase
