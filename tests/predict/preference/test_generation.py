"""Generation against traces of transformers' `generate`: the pass over the prompt, and the last token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.predict.preference.cases import Case
from tests.predict.preference.running import NEAR, Tracer, planned

CASES = (
    Case("prompt", "generate", evaluation={"batch": 64, "sequence": 256, "generate": 8}),
    Case("tokens", "generate", kv_heads=2, evaluation={"batch": 256, "sequence": 8, "generate": 48}),
    Case(
        "beams", "generate", kv_heads=4, evaluation={"batch": 64, "sequence": 16, "generate": 48, "beams": 4}
    ),
    Case("prompt-beams", "generate", evaluation={"batch": 16, "sequence": 256, "generate": 6, "beams": 4}),
    Case(
        "autocast",
        "generate",
        precision="fp32-autocast",
        kv_heads=4,
        evaluation={"batch": 64, "sequence": 128, "generate": 16},
    ),
    Case("fp32", "generate", precision="fp32", evaluation={"batch": 64, "sequence": 16, "generate": 64}),
)


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("transformers", reason="generation is transformers'")
    process = Tracer()
    yield process
    process.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_generation_is_within_one_percent_of_the_trace(case: Case, tracer: Tracer) -> None:
    traced, found = tracer.peaks(case), planned(case)
    for phase in ("forward", "backward", "optimizer", "generate"):
        assert abs(found[phase] / traced[phase] - 1) <= NEAR, phase
