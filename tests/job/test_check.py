"""Jobs that cannot be are refused in one sentence; jobs that can are not."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given

from oomph.errors import OomphError, UsageError
from oomph.job.change import with_values
from oomph.job.check import check
from oomph.job.model import Framework, Job, Lora, Method, Quantization
from oomph.job.names import model
from tests.job.families.meta import model_of
from tests.job.strategies import JOBS

LLAMA = Job(model=model("llama-3.1-8b"))
SMALL = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


def job(**parts: Any) -> Job:
    return msgspec.structs.replace(LLAMA, **parts)


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"batch.micro": 0}, r"batch\.micro is 0"),
    ({"batch.micro": 10**12}, r"batch\.micro is 1000000000000"),
    ({"batch.micro": 10**7, "batch.sequence": 10**7}, "10,000,000 samples of 10,000,000 tokens"),
    ({"batch.accumulation": -1}, r"batch\.accumulation is -1"),
    ({"batch.sequence": None}, "reads text: give batch.sequence"),
    ({"parallel.data": 0}, r"parallel\.data is 0"),
    ({"parallel.data": 8}, "8 data ranks with parallel.strategy none would train 8 models apart"),
    (
        {"parallel.data": 4, "parallel.strategy": "ddp", "hardware.gpus": 8},
        "data 4 are 4 ranks, but there are 8 GPUs",
    ),
    (
        {"parallel.tensor": 2, "hardware.gpu": "a100-80gb"},
        "data 1 x tensor 2 are 2 ranks, but there is 1 GPU; each",
    ),
    ({"parallel.tensor": 3}, r"parallel\.tensor \(3\) does not divide the attention heads \(32\)"),
    ({"parallel.context": 3}, r"parallel\.context \(3\) does not divide the sequence \(2048 tokens\)"),
    ({"parallel.pipeline": 64}, "64 pipeline stages are more than the 32 layers of meta-llama/Llama-3.1-8B"),
    ({"parallel.pipeline": 2, "parallel.strategy": "zero3"}, "zero3 does not go with pipeline"),
    ({"parallel.data": 4, "parallel.strategy": "ddp", "parallel.expert": 4}, "Llama-3.1-8B has no experts"),
    (
        {"parallel.data": 4, "parallel.strategy": "ddp", "parallel.expert": 3},
        "does not divide the data ranks",
    ),
    ({"parallel.strategy": "zero3", "parallel.shard_size": 8}, "shard_size is for hybrid sharding"),
    (
        {"parallel.strategy": "fsdp2_hybrid_shard", "parallel.data": 8, "parallel.shard_size": 3},
        r"shard_size \(3\) does not divide the data ranks \(8\)",
    ),
    ({"parallel.offload_parameters": True}, "offload_parameters needs FSDP with sharding, or ZeRO-3"),
    (
        {"parallel.offload_parameters": True, "parallel.strategy": "fsdp1_no_shard"},
        "the strategy is fsdp1_no_shard",
    ),
    ({"optimizer.offload": "nvme"}, "nvme is ZeRO-3's"),
    ({"optimizer.impl": "in_backward", "batch.accumulation": 4}, "keeps no gradients to accumulate over 4"),
    ({"loss": "loss_parallel"}, "parallel.tensor is 1"),
    ({"evaluation.generate": 10}, "needs evaluation.batch"),
    ({"evaluation.batch": 0}, r"evaluation\.batch is 0"),
    ({"method.name": "lora"}, "nothing says which adapters"),
    ({"method.lora.rank": 8}, "the method is full"),
    ({"method.name": "lora", "method.lora.rank": 0}, r"method\.lora\.rank is 0"),
    ({"method.name": "lora", "method.lora.dropout": 1.0}, "it must be from 0 up to 1"),
    ({"method.name": "lora", "method.lora.dtype": "int8"}, "Adapters train in fp32, bf16 or fp16"),
    ({"method.name": "lora", "method.lora.targets": ""}, "names no module"),
    (
        {"method.name": "lora", "method.lora.targets": "c_attn"},
        "is called c_attn; its linear modules are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm",
    ),
    ({"method.name": "qlora", "method.lora.rank": 8}, "nothing says how weights are quantised"),
    ({"method.quantization.kind": "nf4"}, "Full training cannot update nf4 weights"),
    ({"method.frozen": "vision_tower"}, "has nothing called vision_tower; it has model.embed_tokens"),
    ({"precision.weights": "int4"}, "int4 weights do not train"),
    ({"precision.compute": "int8"}, r"precision\.compute is int8"),
    ({"precision.autocast": True}, "Autocast casts to bf16 or fp16"),
    ({"precision.master": True}, "but the weights are fp32"),
    ({"precision.grads": "fp8"}, "gradients are fp32, bf16 or fp16"),
    ({"attention": "flash_attention_2"}, "flash_attention_2 takes bf16 or fp16"),
    ({"attention": "sdpa_flash", "precision.compute": "tf32"}, "use sdpa"),
    ({"hardware.gpu": "v100-32gb", "precision.compute": "bf16"}, r"7\.0\) has no bf16"),
    ({"hardware.gpu": "t4", "precision.weights": "bf16"}, r"7\.5\) has no bf16"),
    ({"hardware.gpu": "a100-80gb", "precision.compute": "fp8"}, r"8\.0\) has no fp8"),
    (
        {"hardware.gpu": "t4", "precision.compute": "fp16", "attention": "flash_attention_2"},
        r"flash_attention_2 needs compute capability 8\.0",
    ),
    (
        {"hardware.gpu": "a100-80gb", "precision.compute": "bf16", "attention": "flash_attention_3"},
        r"flash_attention_3 needs compute capability 9\.0",
    ),
    ({"hardware.gpu": "a1000000"}, "a1000000"),
    ({"hardware.machine": "a2-superhighgpu-8g"}, "a2-superhighgpu-8g"),
    ({"hardware.gpu": "a100-40gb", "hardware.free_bytes": "60GiB"}, "60.00 GiB cannot be free on"),
    ({"hardware.free_bytes": "60GiB", "hardware.capacity_bytes": "40GiB"}, "on a GPU that has 40.00 GiB"),
    ({"hardware.free_bytes": "20GiB", "hardware.capacity_bytes": "70GiB"}, "two answers to one question"),
    ({"hardware.host_bytes": -1}, "no machine has"),
    ({"parallel.zero_reduce_bucket": -1}, "must be from 0"),
    ({"parallel.zero_persistence_threshold": -1}, "cannot be negative"),
    ({"checkpointing.every": 0}, r"checkpointing\.every is 0"),
    (
        {"model.config.num_attention_heads": 24, "model.config.num_key_value_heads": 24},
        "does not divide hidden_size",
    ),
    (
        {"model.config.num_key_value_heads": 5},
        r"num_key_value_heads \(5\) of .* does not divide num_attention_heads",
    ),
    ({"model.config.num_hidden_layers": 0}, "num_hidden_layers of meta-llama/Llama-3.1-8B is 0"),
    ({"model.config.hidden_size": 2**40}, "must be a whole number from 1"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_cannot_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        check(with_values(LLAMA, changes))
    assert "\n" not in str(caught.value)


ACCEPTED: list[dict[str, object]] = [
    {},
    {"parallel.data": 8, "parallel.strategy": "fsdp2_full"},
    {"parallel.data": 8, "parallel.strategy": "fsdp2_full", "hardware.gpus": 8, "hardware.gpu": "a100-80gb"},
    {
        "parallel.tensor": 8,
        "parallel.data": 2,
        "parallel.strategy": "fsdp2_hybrid_shard",
        "parallel.shard_size": 2,
    },
    {"parallel.tensor": 16},  # twice as many as key-value heads: each is on two ranks
    {"method.name": "lora", "method.lora.targets": "all-linear"},
    {"method.name": "lora", "method.lora.targets": "q_proj,c_attn"},  # PEFT takes what is there
    {"method.name": "lora", "method.lora.targets": "self_attn.q_proj"},
    {"method.name": "lora", "method.lora.targets": ".*_attn"},  # a pattern is PEFT's to understand
    {"method.name": "lora", "method.lora.targets": "wq", "framework.name": "torchtune"},
    {"method.name": "qlora", "method.lora.rank": 8, "method.quantization.kind": "nf4"},
    {"method.frozen": "model.embed_tokens"},
    {"method.frozen": "layers.0"},
    {"method.frozen": "model.language_model"},  # as another version of transformers may call it
    {"hardware.gpu": "v100-32gb", "precision.compute": "fp16", "precision.autocast": True},
    {"hardware.gpu": "h100-80gb", "precision.compute": "fp8"},
    {"hardware.gpu": "mi300x", "precision.compute": "bf16", "attention": "flash_attention_2"},
    {"batch.sequence": 200_000},  # rotary positions have no end
]


@pytest.mark.parametrize("changes", ACCEPTED)
def test_what_can_be_is_not(changes: dict[str, object]) -> None:
    check(with_values(LLAMA, changes))


def test_learned_positions_end() -> None:
    gpt2 = Job(model=model("gpt2"))
    check(with_values(gpt2, {"batch.sequence": 1024}))
    with pytest.raises(UsageError, match="1025 tokens is beyond the 1024 positions that gpt2 has learned"):
        check(with_values(gpt2, {"batch.sequence": 1025}))
    opt = Job(model=model("facebook/opt-125m"))
    check(with_values(opt, {"batch.sequence": 2048}))
    with pytest.raises(UsageError, match="2048 positions"):
        check(with_values(opt, {"batch.sequence": 2049}))


def test_experts_divide() -> None:
    mixtral = Job(model=model_of("mixtral", **SMALL, num_local_experts=6))
    check(with_values(mixtral, {"parallel.data": 6, "parallel.expert": 3, "parallel.strategy": "fsdp2_full"}))
    with pytest.raises(UsageError, match="does not divide the 6 experts"):
        check(
            with_values(
                mixtral, {"parallel.data": 4, "parallel.expert": 4, "parallel.strategy": "fsdp2_full"}
            )
        )


def test_targets_among_experts_by_the_version_of_transformers() -> None:
    mixtral = Job(model=model("mixtral-8x7b"), method=Method(name="lora", lora=Lora(targets=("w1", "w2"))))
    with pytest.raises(UsageError, match=r"No module of .* is called w1 or w2"):
        check(mixtral)
    check(
        msgspec.structs.replace(
            mixtral, framework=Framework(name="trl", versions=(("transformers", "4.48"),))
        )
    )


def test_a_family_that_nobody_knows_is_not_this_check_s_affair() -> None:
    check(Job(model=model_of("mamba", hidden_size=64)))


def test_full_training_of_quantised_weights() -> None:
    with pytest.raises(UsageError, match="Full training cannot update int8 weights"):
        check(job(method=Method(quantization=Quantization(kind="int8"))))
    with pytest.raises(UsageError, match="names no module"):
        check(job(method=Method(name="lora", lora=Lora(targets=()))))


@given(JOBS)
def test_any_job_is_accepted_or_refused_in_a_sentence(job: Job) -> None:
    for one in (job, msgspec.structs.replace(job, model=LLAMA.model)):
        with suppress(OomphError):
            check(one)
