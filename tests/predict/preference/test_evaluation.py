"""Evaluation against traces of transformers' Trainer: with and without predictions that are gathered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.predict.preference.cases import Case
from tests.predict.preference.running import NEAR, Tracer, planned

CASES = (
    Case("loss", "evaluate", batch=1, length=64, evaluation={"batch": 8, "sequence": 512, "samples": 16}),
    Case(
        "predictions",
        "evaluate",
        batch=1,
        length=64,
        evaluation={"batch": 4, "sequence": 256, "samples": 16, "keep_logits": True},
    ),
    Case(
        "autocast",
        "evaluate",
        batch=1,
        length=64,
        precision="fp32-autocast",
        settings={"bf16": True},
        evaluation={"batch": 4, "sequence": 256, "samples": 8},
    ),
    Case(
        "autocast-predictions",
        "evaluate",
        batch=1,
        length=64,
        precision="fp32-autocast",
        settings={"bf16": True},
        evaluation={"batch": 4, "sequence": 256, "samples": 16, "keep_logits": True, "accumulation_steps": 3},
    ),
)


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("transformers", reason="evaluation is transformers' Trainer's")
    pytest.importorskip("datasets", reason="its samples are a dataset's")
    process = Tracer()
    yield process
    process.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evaluation_is_within_one_percent_of_the_trace(case: Case, tracer: Tracer) -> None:
    traced, found = tracer.peaks(case), planned(case)
    for phase in ("backward", "optimizer", "eval"):
        assert abs(found[phase] / traced[phase] - 1) <= NEAR, phase
