"""4-bit weights under FSDP: what a GPU holds while they are loaded, and that nothing is cast to fp32."""

from __future__ import annotations

import pytest

from oomph.job.model import (
    Batch,
    Checkpointing,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Parallel,
    Precision,
    Quantization,
)
from oomph.job.names import model
from oomph.phases import Phase
from oomph.predict.plan import plan

GIB = 2**30
#: Of Llama 2 70B's config.json: 80 layers of width 8,192 and 28,672, 8 heads of keys and values of 128, V = 32,000.
LAYER = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672
PACKED = 80 * LAYER // 2
OUTSIDE = 2 * 32000 * 8192 * 2
#: In fp32, on queries and values.
ADAPTERS = 80 * 8 * (8192 + 8192 + 8192 + 1024) * 4
#: An absmax of a byte for 64 weights, an fp32 for 256 of those.
CONSTANTS = 80 * (LAYER // 64 + 4 * LAYER // 64 // 256)


def planned(strategy="fsdp1_full_shard", transformers="4.48.1", name="trl", **quantization):
    job = Job(
        model=model("meta-llama/Llama-2-70b-hf"),
        method=Method("qlora", Lora(rank=8), Quantization("nf4", double=True, **quantization)),
        precision=Precision(weights="bf16", compute="bf16"),
        batch=Batch(micro=1, sequence=512),
        checkpointing=Checkpointing(mode="full"),
        parallel=Parallel(strategy=strategy, data=2),
        framework=Framework(name=name, versions=(("transformers", transformers),) if transformers else ()),
        hardware=Hardware(gpu="rtx-4090", gpus=2),
    )
    found = plan(job, replay=False)
    assert found.ranks, found.unsupported
    return found


def load(found):
    return found.worst.phases[Phase.LOAD].allocated_bytes


@pytest.mark.parametrize("prepared", [False, True])
def test_units_come_one_by_one(prepared):
    """Half of everything and what reads it, and the last unit (the root's embedding and head) whole and flattened."""
    found = planned(prepared=prepared)
    expected = (PACKED + OUTSIDE + ADAPTERS) // 2 + CONSTANTS + 2 * OUTSIDE
    assert load(found) == pytest.approx(expected, rel=0.001)
    told = " ".join(found.assumptions)
    assert "bnb_4bit_quant_storage" in told
    assert "unit by unit" in told
    (name, size) = found.host.parts[0]
    assert "first rank" in name
    assert size == pytest.approx(PACKED + OUTSIDE, rel=0.01)


@pytest.mark.parametrize(
    ("strategy", "version", "code"),
    [("fsdp1_full_shard", "5.24.0", "transformers 5"), ("fsdp2_full", "4.57.1", "accelerate's FSDP2")],
)
def test_where_each_gpu_holds_all_of_them_first(strategy, version, code):
    found = planned(strategy, version)
    assert load(found) >= PACKED + OUTSIDE + CONSTANTS
    assert load(found) == pytest.approx(PACKED + OUTSIDE + CONSTANTS, rel=0.02)
    assert any(code in each for each in found.assumptions)


def test_answer_ai_loads_unit_by_unit_whatever_the_version():
    assert load(planned(transformers="", name="fsdp-qlora")) < PACKED


def test_a_job_that_shards_nothing_is_told_nothing():
    one = Job(
        model=model("Qwen2.5-0.5B"),
        method=Method("qlora", Lora(rank=8), Quantization("nf4", double=True)),
        precision=Precision(weights="bf16", compute="bf16"),
    )
    assert not any("bnb_4bit_quant_storage" in each for each in plan(one, replay=False).assumptions)
