"""What a run's fingerprint and records say of its job."""

from __future__ import annotations

import pytest

from oomph.diagnose.verify.against.batch import longest
from oomph.diagnose.verify.against.recorded_job import recorded_job
from oomph.errors import UsageError
from oomph.job.model import Batch, Lora, Optimizer
from tests.diagnose.verify.runs import Rank, read

TRAINER = {
    "model.id": "openai-community/gpt2",
    "model.dtypes": "float32 124439808",
    "model.gradient_checkpointing": "True",
    "model.attn_implementation": "sdpa",
    "arguments.output_dir": "out",
    "arguments.per_device_train_batch_size": "4",
    "arguments.gradient_accumulation_steps": "2",
    "arguments.gradient_checkpointing": "False",
    "arguments.bf16": "True",
    "arguments.optim": "adamw_torch_fused",
    "arguments.fsdp": "[]",
    "versions.torch": "2.9.0+cu128",
    "versions.transformers": "5.1.0",
    "gpu.known_as": "A100-40GB",
}


def tokens(micro: int, sequence: int):
    return lambda step: {"input_ids": (micro, sequence), "attention_mask": (micro, sequence)}


def test_a_trainers_job(tmp_path):
    found = recorded_job(read(tmp_path, [Rank(batch=tokens(4, 512))], fingerprint=TRAINER))
    job = found.job
    assert job.model.name == "openai-community/gpt2"
    assert job.batch == Batch(micro=4, sequence=512, accumulation=2)
    assert job.optimizer == Optimizer(impl="fused")
    assert (job.precision.weights, job.precision.compute, job.precision.autocast) == ("fp32", "bf16", True)
    assert job.checkpointing.mode == "full"  # as the model itself said
    assert job.framework.name == "transformers"
    assert dict(job.framework.versions) == {"torch": "2.9.0", "transformers": "5.1.0"}
    assert job.hardware.gpu == "A100-40GB"
    assert {"batch.micro", "precision", "hardware.gpu"} <= found.said
    assert any(path.startswith("optimizer") for path in found.said)


def test_a_script_that_says_nothing_of_mixed_precision_may_still_autocast(tmp_path):
    found = recorded_job(
        read(tmp_path, [Rank()], fingerprint={"model.id": "gpt2", "model.dtypes": "float32 9"})
    )
    assert "precision" not in found.said
    assert "method" not in found.said


def test_adapters(tmp_path):
    adapter = {
        "model.adapter.default.peft_type": "PeftType.LORA",
        "model.adapter.default.r": "16",
        "model.adapter.default.target_modules": "['c_attn']",
    }
    found = recorded_job(read(tmp_path, [Rank()], fingerprint={**TRAINER, **adapter}))
    assert found.job.method.name == "lora"
    assert found.job.method.lora == Lora(rank=16, targets=("c_attn",))


def test_ranks_and_a_model_by_its_numbers(tmp_path):
    values = {
        "model.id": "/data/models/mine",
        "model.model_type": "llama",
        "model.hidden_size": "256",
        "model.intermediate_size": "512",
        "model.num_hidden_layers": "2",
        "model.num_attention_heads": "4",
        "model.vocab_size": "1000",
    }
    job = recorded_job(read(tmp_path, [Rank(0), Rank(1)], fingerprint=values)).job
    assert (job.model.family, job.model.get("hidden_size")) == ("llama", 256)
    assert (job.parallel.ranks, job.parallel.strategy) == (2, "ddp")
    assert job.framework.name == ""


@pytest.mark.parametrize("values", [{}, {"model.id": "nobody/knows-this"}])
def test_a_run_that_does_not_name_its_model(tmp_path, values):
    with pytest.raises(UsageError, match="name the job"):
        recorded_job(read(tmp_path, [Rank()], fingerprint=values))


def test_the_longest_batch_is_found_on_any_rank(tmp_path):
    ranks = [
        Rank(0, batch=tokens(4, 512)),
        Rank(1, batch=lambda step: {"input_ids": (4, 700 if step == 5 else 100)}),
    ]
    found = longest(read(tmp_path, ranks))
    assert (found.rank, found.step, found.micro, found.sequence) == (1, 5, 4, 700)


def test_images(tmp_path):
    found = longest(read(tmp_path, [Rank(batch=lambda _: {"pixel_values": (8, 3, 224, 224)})]))
    assert (found.micro, found.image_size, found.sequence) == (8, 224, None)


def test_no_shapes_no_batch(tmp_path):
    assert longest(read(tmp_path, [Rank()])) is None
