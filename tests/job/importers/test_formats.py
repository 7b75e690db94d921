"""Each format's file in files/ is recognised by its content and gives the job that its keys mean."""

from __future__ import annotations

import pytest

from oomph.job.importers import merge, read
from oomph.job.model import Batch, Lora, Method, Objective, Parallel, Quantization
from oomph.job.names import model as known_model
from tests.job.importers.expected import EXPECTED, FILES


@pytest.mark.parametrize("file", EXPECTED)
def test_a_file_is_recognised_and_means_its_job(file):
    kind, expected = EXPECTED[file]
    imported = read(FILES / file)
    assert imported.kind == kind
    assert imported.unknown == ()
    assert imported.unsupported == ()
    assert merge(imported)[0] == expected


@pytest.mark.parametrize("file", EXPECTED)
def test_the_content_decides_and_not_the_name(file):
    assert read((FILES / file).read_text()).kind == EXPECTED[file][0]


def test_every_value_has_the_key_that_says_it():
    values = read(FILES / "accelerate_fsdp.yaml").values
    assert values["parallel.strategy"].quote == "fsdp_config.sharding_strategy = SHARD_GRAD_OP"
    assert values["hardware.gpus"].quote == "num_processes = 16"
    assert not values["hardware.gpus"].default


def test_a_model_of_config_json():
    imported = read(FILES / "config.json")
    job, notes = merge(imported)
    assert imported.kind == "config.json"
    assert job.model.name == "acme/small-llama"
    assert job.model.family == "llama"
    assert job.model.get("rope_scaling.factor") == 2.0
    assert job.precision.weights == "fp32"
    # transformers 5 would load what the file says.
    assert any("5.x loads bf16" in note for note in notes)


def test_quantisation_inside_config_json():
    job, _ = merge(read(FILES / "config_bnb.json"))
    assert job.method.quantization == Quantization(kind="nf4", double=True, prepared=True)


def test_litgpt_unties_the_head_and_shards_over_two_devices():
    job, _ = merge(read(FILES / "litgpt.yaml"))
    # The checkpoint of Llama 3.2 1B ties them; LitGPT's model has two tensors.
    assert known_model("meta-llama/Llama-3.2-1B").get("tie_word_embeddings") is True
    assert job.model.get("tie_word_embeddings") is False
    assert job.method == Method(
        name="lora",
        lora=Lora(
            rank=16,
            targets=("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "down_proj"),
            dropout=0.1,
            dtype="bf16",
        ),
    )
    # 16 = 2 x 4 x 2 devices
    assert job.batch == Batch(micro=2, sequence=512, accumulation=4)
    assert job.parallel == Parallel(strategy="fsdp1_full_shard", data=2)
    assert (job.loss, job.framework.name) == ("chunked_ce", "litgpt")


def test_a_trainer_of_two_models_says_its_objective():
    imported = read(FILES / "dpo.txt")
    assert imported.kind == "TRL"
    assert imported.unsupported == ()
    job = merge(imported)[0]
    assert job.batch == Batch(micro=1, sequence=1024)
    assert job.objective == Objective(name="dpo")
