"""Mixtures of experts: every phase of a plan against a trace of transformers' own class."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.predict.grid.cases import Case
from tests.predict.grid.running import Tracer, planned
from tests.predict.moe.cases import case

NEAR = 0.01
_WIDE = {"batch": 8, "sequence": 512}
_SHARDED = {"strategy": "fsdp2_full", "ranks": 4}
CASES = (
    case("mixtral", **_WIDE),
    case("mixtral", checkpointing=True, **_SHARDED),
    case("qwen2_moe", checkpointing=True, **_WIDE),
    case("qwen2_moe", precision="bf16-autocast", attention="eager"),
    case("qwen3_moe", precision="bf16-autocast", **_WIDE),
    case("qwen3_moe", precision="bf16-autocast", checkpointing=True, **_SHARDED),
    case("qwen3_moe", lora=True, checkpointing=True, reentrant=True, **_WIDE),
    case("olmoe", precision="fp32", batch=1),
    case("olmoe", attention="flash_attention_2", strategy="fsdp1_full_shard", ranks=4, **_WIDE),
    case("gpt_oss", **_WIDE),
    case("gpt_oss", lora=True, checkpointing=True, reentrant=True, **_WIDE),
    case("gpt_oss", precision="bf16-autocast", checkpointing=True, **_SHARDED),
    case("deepseek_v2", lora=True, **_WIDE),
    case("deepseek_v2_lite", checkpointing=True, batch=1, sequence=1024),
    case("deepseek_v2_lite", precision="bf16-autocast", attention="eager", **_SHARDED),
    case("deepseek_v3", precision="bf16-autocast", **_WIDE),
    case("deepseek_v3", attention="flash_attention_2", checkpointing=True, **_WIDE),
)


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("transformers", reason="transformers' classes are traced")
    pytest.importorskip("peft", reason="PEFT's adapters are traced")
    process = Tracer("tests.predict.moe.worker")
    yield process
    process.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent_of_the_trace(case: Case, tracer: Tracer) -> None:
    traced = tracer.peaks(case)
    found = planned(case)
    for phase, size in traced.items():
        assert abs(found[phase] / size - 1) <= NEAR, phase
