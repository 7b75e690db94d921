"""Expert parallelism: traces of a dispatcher that was written for the test, and numbers by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import msgspec
import pytest

from oomph.errors import UsageError
from oomph.job.model import (
    Batch,
    Checkpointing,
    Evaluation,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Parallel,
    Precision,
)
from oomph.job.names import model as model_named
from oomph.predict.compose import expert_parallel, supported
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.compose.units import units_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from oomph.predict.plan import plan
from oomph.predict.sharding import strategy_for
from tests.predict.grid.running import Tracer, by_phase, planned
from tests.predict.moe.cases import Spread, spread

NEAR = 0.01
CASES = (
    spread("qwen3_moe", 4, 2, batch=8, sequence=512),
    spread("qwen3_moe", 8, 4, batch=4, sequence=512, precision="bf16-autocast", checkpointing=True),
    spread("qwen3_moe", 4, 4, batch=1, precision="bf16-autocast"),
    spread("mixtral", 8, 2, batch=1, checkpointing=True),
    spread("qwen2_moe", 8, 8, checkpointing=True, reentrant=True),
    spread("olmoe", 16, 2, batch=1, sequence=64),
    spread("deepseek_v3", 4, 2, batch=4, sequence=512, precision="bf16-autocast", checkpointing=True),
)
CROWDED = spread("qwen3_moe", 4, 2, crowd=2, batch=8, sequence=512)


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("transformers", reason="transformers' classes are traced")
    process = Tracer("tests.predict.moe.worker")
    yield process
    process.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_phase_is_within_one_percent_of_the_trace(case: Spread, tracer: Tracer) -> None:
    traced = tracer.peaks(case)
    found = planned(case)
    for phase, size in traced.items():
        assert abs(found[phase] / size - 1) <= NEAR, phase


def test_a_crowded_rank_is_within_one_percent_of_the_trace(tracer: Tracer) -> None:
    job, sink = CROWDED.job(), PeakSink()
    compose(replace(setup_of(job, variants(job)[0]), crowded=True), sink)
    found = by_phase(CROWDED, {str(phase.value): peak.bytes for phase, peak in sink.peaks().items()})
    for phase, size in tracer.peaks(CROWDED).items():
        assert abs(found[phase] / size - 1) <= NEAR, phase
    assert found["backward"] > 1.02 * planned(CROWDED)["backward"]


def qwen3(ranks: int = 16, expert: int = 8, **parts: Any) -> Job:
    """Qwen3-30B-A3B: 48 layers, hidden 2048, 32 heads and 4 of keys and values of 128, 128 experts of 768, 8 of them
    for each token, a vocabulary of 151936."""
    job = Job(
        model=model_named("Qwen/Qwen3-30B-A3B"),
        precision=Precision(weights="fp32", compute="bf16", reduce="fp32"),
        batch=Batch(micro=1, sequence=4096),
        parallel=Parallel(strategy="fsdp2_full", data=ranks, expert=expert),
        framework=Framework(name="pytorch", versions=(("torch", "2.13.0"),)),
        hardware=Hardware(gpu="h100-sxm5-80gb", gpus=ranks, per_node=8),
    )
    return msgspec.structs.replace(job, **parts)


def test_parameters_of_a_rank() -> None:
    """Of a layer's experts a rank has 128 / 8 = 16, and of those every second one (two ranks have the same ones); of
    the rest, a sixteenth of the rows of each parameter."""
    job = qwen3()
    setup = setup_of(job, variants(job)[0])
    strategy = strategy_for(job, units_of(setup).units, PeakSink(), setup.code)
    found = sum(each.numel for each in strategy.optimizer_parameters())
    experts = 16 // 2 * 3 * 768 * 2048
    attention = 2 * 32 * 128 * 2048 + 2 * 4 * 128 * 2048
    norms = 2 * 2048 + 2 * 128
    gate = 128 * 2048
    layer = experts + (attention + norms + gate) // 16
    assert found == 48 * layer + (2 * 151936 * 2048 + 2048) // 16


def test_a_rank_gathers_its_experts_only() -> None:
    job = qwen3()
    setup = setup_of(job, variants(job)[0])
    unit = units_of(setup).units[1]
    experts = [each for each in unit.parameters if ".experts." in each.name]
    assert sum(each.numel for each in experts) == 16 * 3 * 768 * 2048
    assert all(prod(each.shape) == each.numel for each in experts)


def test_more_ranks_than_experts_cut_the_second_dimension() -> None:
    """256 ranks, 8 of them with different experts: 32 have the same 16, each a 32nd of every expert's 1536 or 2048
    rows."""
    job = qwen3(ranks=256)
    setup = setup_of(job, variants(job)[0])
    strategy = strategy_for(job, units_of(setup).units, PeakSink(), setup.code)
    local = {each.name: each.numel for each in strategy.optimizer_parameters() if ".experts." in each.name}
    assert local == {
        "mlp.experts.gate_up_proj": 16 * 1536 * 2048 // 32,
        "mlp.experts.down_proj": 16 * 2048 * 768 // 32,
    }


def test_rows_of_a_rank() -> None:
    dims = {"b": 3, "s": 100, "top_k": 8, "experts": 128}
    assert expert_parallel.rows(qwen3(), dims, crowded=False) == {"routed": 2400, "local_experts": 16}
    assert expert_parallel.rows(qwen3(), dims, crowded=True) == {"routed": 4800, "local_experts": 16}


def test_the_interval_reaches_to_a_crowded_rank() -> None:
    """Twice the rows: what a checkpointed layer holds of them is there twice."""
    job = qwen3(checkpointing=Checkpointing(mode="full"), batch=Batch(micro=4, sequence=4096))
    found = plan(job, replay=False)
    sink = PeakSink()
    compose(replace(setup_of(job, variants(job)[0]), crowded=True), sink)
    assert not found.unsupported
    for phase, peak in sink.peaks().items():
        assert found.ranks[0].phases[phase].high_bytes >= peak.bytes
    assert found.parameters == found.trainable
    assert any("2 times as many" in each for each in found.assumptions)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"framework": Framework(name="megatron-lm")}, "expert parallelism under megatron-lm"),
        (
            {"framework": Framework(name="transformers")},
            "each rank computes its experts for the tokens of all",
        ),
        ({"model": model_named("openai/gpt-oss-20b")}, "experts that have biases"),
        ({"parallel": Parallel(strategy="zero3", data=8, expert=8)}, "zero3 in place of FSDP2"),
        (
            {"parallel": Parallel(strategy="fsdp2_full", data=8, expert=8, tensor=2)},
            "beside tensor parallelism",
        ),
        (
            {"parallel": Parallel(strategy="fsdp2_full", data=8, expert=8, context=2)},
            "beside context parallelism",
        ),
        ({"compile": True}, "torch.compile of layers with expert parallelism"),
        ({"method": Method(name="lora", lora=Lora())}, "frozen parameters beside expert parallelism"),
        ({"evaluation": Evaluation(batch=1, generate=8)}, "generation with expert parallelism"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_modelled_is_named(parts: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        supported.check(qwen3(**parts))
