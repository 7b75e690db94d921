"""What follows from a job is filled and said."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from oomph.job.change import with_values
from oomph.job.check import check
from oomph.job.model import Framework, Job
from oomph.job.names import model
from oomph.job.resolve import loaded_dtype, resolve
from tests.job.families.meta import model_of
from tests.job.strategies import JOBS

LLAMA = Job(model=model("llama-3.1-8b"))
LORA = {
    "method.name": "lora",
    "method.lora.rank": 8,
    "precision.weights": "bf16",
    "precision.compute": "bf16",
}


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({}, "precision.grads", "fp32"),
        ({"precision.weights": "bf16"}, "precision.grads", "bf16"),
        ({"precision.weights": "tf32"}, "precision.grads", "fp32"),
        (LORA, "precision.grads", "fp32"),
        ({**LORA, "method.lora.dtype": "bf16"}, "precision.grads", "bf16"),
        ({**LORA, "method.lora.modules_to_save": "lm_head"}, "precision.grads", None),
        ({"precision.weights": "bf16", "precision.grads": "fp32"}, "precision.grads", "fp32"),
        ({"precision.weights": "bf16"}, "optimizer.state", "bf16"),
        (LORA, "optimizer.state", "fp32"),
        ({**LORA, "method.lora.modules_to_save": "lm_head"}, "optimizer.state", None),
        ({"precision.weights": "bf16", "precision.master": True}, "optimizer.state", "fp32"),
        ({"precision.weights": "bf16", "parallel.strategy": "zero2"}, "optimizer.state", "fp32"),
        ({"precision.weights": "bf16", "optimizer.impl": "torchao"}, "optimizer.state", "int8"),
        ({"precision.weights": "bf16", "optimizer.impl": "bnb_paged"}, "optimizer.state", "fp32"),
        ({"optimizer.state": "int8", "optimizer.impl": "bnb"}, "optimizer.state", "int8"),
        ({"optimizer.name": "sgd"}, "optimizer.state", None),
        ({"optimizer.name": "sgd", "optimizer.momentum": 0.9}, "optimizer.state", "fp32"),
        ({"framework.name": "trl"}, "checkpointing.reentrant", None),
        ({"checkpointing.mode": "full"}, "checkpointing.reentrant", None),
        ({"checkpointing.mode": "full", "framework.name": "torchtitan"}, "checkpointing.reentrant", False),
        ({"checkpointing.mode": "full", "framework.name": "transformers"}, "checkpointing.reentrant", None),
        ({"parallel.data": 16, "parallel.strategy": "fsdp2_hybrid_shard"}, "parallel.shard_size", 8),
        ({"parallel.data": 16, "parallel.strategy": "ddp"}, "parallel.shard_size", None),
        (
            {"parallel.data": 16, "parallel.strategy": "fsdp1_hybrid_shard", "hardware.per_node": 4},
            "parallel.shard_size",
            4,
        ),
        (
            {"parallel.data": 8, "parallel.tensor": 4, "parallel.strategy": "fsdp2_hybrid_shard"},
            "parallel.shard_size",
            2,
        ),
        ({"parallel.data": 6, "parallel.strategy": "fsdp2_hybrid_shard"}, "parallel.shard_size", 6),
        (
            {
                "parallel.data": 32,
                "parallel.strategy": "fsdp2_hybrid_shard",
                "hardware.machine": "a2-megagpu-16g",
                "hardware.gpus": 32,
            },
            "parallel.shard_size",
            16,
        ),
        ({"parallel.data": 8, "parallel.strategy": "ddp"}, "hardware.gpus", 8),
        ({"parallel.data": 8, "parallel.strategy": "ddp", "hardware.gpu": "t4"}, "hardware.gpus", 1),
    ],
)
def test_filled(changes: dict[str, object], field: str, value: object) -> None:
    job, sentences = resolve(with_values(LLAMA, changes))
    part, name = field.split(".")
    assert getattr(getattr(job, part), name) == value
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize(
    ("version", "way"), [("4.48.1", True), ("4.30.0", True), ("5.0.0", False), ("5.24", False)]
)
def test_reentrant_by_the_version_of_transformers(version: str, way: bool) -> None:
    job = with_values(LLAMA, {"checkpointing.mode": "full"})
    job = msgspec.structs.replace(job, framework=Framework(name="trl", versions=(("transformers", version),)))
    found, sentences = resolve(job)
    assert found.checkpointing.reentrant is way
    assert any("reentrant" in one for one in sentences)


def test_weights_as_they_are_loaded() -> None:
    old, new = (
        Framework(versions=(("transformers", "4.57.1"),)),
        Framework(versions=(("transformers", "5.1"),)),
    )
    assert loaded_dtype(LLAMA.model, old) == "fp32"
    assert loaded_dtype(LLAMA.model, new) == "bf16"
    assert loaded_dtype(LLAMA.model, Framework()) == "bf16"
    assert loaded_dtype(model_of("llama"), new) == "fp32"


def test_a_resolved_job_stays_one() -> None:
    job, said = resolve(LLAMA)
    assert len(said) == 2
    assert resolve(job) == (job, ())
    check(job)


@given(JOBS)
def test_any_job_can_be_resolved(job: Job) -> None:
    found, _ = resolve(job)
    assert resolve(found)[0] == found
