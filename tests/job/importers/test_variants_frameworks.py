"""Keys and generations of torchtitan, torchtune, axolotl, LLaMA-Factory, Lightning and LitGPT."""

from __future__ import annotations

import json

import pytest

from oomph.job.importers import merge, read
from oomph.job.model import Batch, Checkpointing, Lora, Optimizer, Parallel, Precision, Quantization
from tests.job.importers.tables import job, refused, unknown

AXOLOTL = {"base_model": "acme/x", "micro_batch_size": 1, "datasets": []}
FACTORY = {"model_name_or_path": "acme/x", "finetuning_type": "full", "cutoff_len": 512}
TUNE = {"model": {"_component_": "torchtune.models.llama2.llama2_7b"}, "batch_size": 1, "dtype": "bf16"}
TITAN = {"model": {"name": "llama3", "flavor": "8B"}, "training": {"seq_len": 128}, "metrics": {}}


def test_generations_of_torchtitan():
    old = job(TITAN | {"training": {"batch_size": 2, "seq_len": 128, "compile": True}})
    assert (old.optimizer.impl, old.loss, old.compile) == ("foreach", "eager_fp32", True)
    new = job(TITAN | {"training": {"local_batch_size": 2, "seq_len": 128, "compile": True}})
    assert (new.optimizer.impl, new.loss, new.compile) == ("fused", "triton_ce", True)
    parts = {"compile": {"enable": True, "components": ["model"]}}
    newest = job(TITAN | parts | {"training": {"local_batch_size": 2, "seq_len": 128}})
    assert (newest.loss, newest.compile) == ("eager_fp32", True)
    # One GPU has nothing to shard: autocast instead.
    assert new.precision == Precision(weights="fp32", compute="bf16", autocast=True)
    assert job(TITAN, gpus=8).precision == Precision(weights="fp32", compute="bf16")
    assert job(TITAN, gpus=8).parallel == Parallel(strategy="fsdp2_full", data=8)


def test_parallelism_of_torchtitan():
    degrees = {"data_parallel_shard_degree": 2, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2}
    found = job(TITAN | {"parallelism": degrees | {"pipeline_parallel_schedule": "Interleaved1F1B"}})
    # parallelize_llama: shards are kept between forward and backward where there is a pipeline.
    assert found.parallel == Parallel(
        strategy="fsdp2_no_reshard",
        data=2,
        tensor=2,
        pipeline=2,
        sequence_parallel=True,
        pipeline_schedule="interleaved_1f1b",
    )
    assert found.hardware.gpus == 8
    replicas = {"data_parallel_replicate_degree": 4, "data_parallel_shard_degree": 1}
    assert job(TITAN | {"parallelism": replicas}).parallel == Parallel(strategy="ddp", data=4)
    assert (
        job(TITAN | {"parallelism": {"tensor_parallel_degree": 2, "disable_loss_parallel": True}}).loss
        == "eager_fp32"
    )


def test_what_torchtitan_does_and_a_job_cannot_say():
    assert "memory_budget" in refused(TITAN | {"activation_checkpoint": {"mode": "memory_budget"}})
    assert "mx" in refused(TITAN | {"model": {"name": "llama3", "flavor": "8B", "converters": ["mx"]}})
    assert "training.new_thing = 1" in unknown(TITAN | {"training": {"seq_len": 128, "new_thing": 1}})
    assert job(TITAN | {"activation_checkpoint": {"mode": "full"}}).checkpointing == Checkpointing(
        mode="full", reentrant=False
    )


@pytest.mark.parametrize(
    ("component", "extra", "expected"),
    [
        ("torch.optim.AdamW", {}, Optimizer(impl="foreach")),
        ("torch.optim.AdamW", {"fused": True}, Optimizer(impl="fused")),
        ("bitsandbytes.optim.PagedAdamW8bit", {}, Optimizer(impl="bnb_paged", state="int8", offload="paged")),
        ("bitsandbytes.optim.AdamW8bit", {}, Optimizer(impl="bnb", state="int8")),
        ("torchao.optim.AdamW8bit", {}, Optimizer(impl="torchao", state="int8")),
        ("torch.optim.SGD", {"momentum": 0.5}, Optimizer(name="sgd", impl="foreach", momentum=0.5)),
    ],
)
def test_optimizers_of_torchtune(component, extra, expected):
    assert job(TUNE | {"optimizer": {"_component_": component, **extra}}).optimizer == expected


def test_memory_settings_of_torchtune():
    found = job(
        TUNE
        | {
            "optimizer": {"_component_": "bitsandbytes.optim.PagedAdamW8bit"},
            "optimizer_in_bwd": True,
            "enable_activation_checkpointing": True,
            "custom_sharded_layers": ["tok_embeddings", "output"],
            "fsdp_cpu_offload": False,
            "gradient_accumulation_steps": 1,
        },
        gpus=2,
    )
    assert found.optimizer == Optimizer(impl="in_backward", state="int8", offload="paged")
    assert found.parallel == Parallel(strategy="fsdp2_full", data=2, units="blocks_and_embeddings")
    assert found.checkpointing.mode == "full"
    assert (found.attention, found.loss) == ("sdpa", "default")


def test_recipes_of_torchtune_that_a_job_cannot_say():
    assert "DPOLoss" in refused(TUNE | {"loss": {"_component_": "torchtune.rlhf.loss.DPOLoss"}})
    assert "teacher_model" in refused(TUNE | {"teacher_model": {"_component_": "x"}})
    assert "quantizer" in refused(TUNE | {"quantizer": {"_component_": "torchtune.training.quantization.X"}})


@pytest.mark.parametrize(
    ("builder", "name"),
    [
        ("llama3_2.lora_llama3_2_1b", "meta-llama/Llama-3.2-1B"),
        ("qwen2_5.qwen2_5_1_5b_instruct", "Qwen/Qwen2.5-1.5B"),
        ("mistral.qlora_mistral_7b", "mistralai/Mistral-7B-v0.1"),
        ("gemma2.gemma2_9b", "google/gemma-2-9b"),
        ("mine.my_model", "my_model"),
    ],
)
def test_builders_of_torchtune_are_models_of_the_hub(builder, name):
    values = read(json.dumps(TUNE | {"model": {"_component_": f"torchtune.models.{builder}"}})).values
    assert values["model.name"].value == name


def test_axolotl_loads_in_the_dtype_of_training():
    assert job(AXOLOTL | {"bf16": "auto"}).precision == Precision(
        weights="bf16", compute="bf16", autocast=True
    )
    assert job(AXOLOTL | {"fp16": True}).precision == Precision(weights="fp16", compute="fp16", autocast=True)
    assert job(AXOLOTL | {"bfloat16": True}).precision == Precision(weights="bf16", compute="bf16")
    assert job(AXOLOTL).precision == Precision()
    assert job(AXOLOTL).optimizer == Optimizer(impl="fused")
    assert job(AXOLOTL).batch == Batch(micro=1, sequence=512, padding="longest")
    assert job(AXOLOTL | {"pad_to_sequence_len": True}).batch.padding == "max_length"
    assert job(AXOLOTL | {"sample_packing": True}).batch.padding is None


def test_methods_of_axolotl():
    lora = AXOLOTL | {"adapter": "lora", "lora_r": 16, "lora_target_modules": ["q_proj"]}
    assert job(lora | {"load_in_8bit": True}).method.quantization == Quantization(kind="int8", prepared=True)
    assert job(lora).method.name == "lora"
    # adapter: qlora is 4-bit; sharded it is not prepared for k-bit training.
    sharded = lora | {"adapter": "qlora", "load_in_4bit": True, "fsdp": ["full_shard", "auto_wrap"]}
    assert job(sharded, gpus=2).method.quantization == Quantization(kind="nf4", double=True)
    assert job(AXOLOTL | {"lora_r": 16}).method.name == "full"
    assert "rl = dpo" in refused(AXOLOTL | {"rl": "dpo"})
    assert "unfrozen_parameters" in refused(AXOLOTL | {"unfrozen_parameters": ["^lm_head"]})


def test_fsdp_2_of_axolotl():
    found = job(
        AXOLOTL | {"fsdp_version": 2, "fsdp_config": {"reshard_after_forward": True}, "bf16": True}, gpus=4
    )
    assert found.parallel.strategy == "fsdp2_full"
    assert found.precision == Precision(weights="fp32", compute="bf16", autocast=True)


def test_precision_of_llama_factory():
    """Trainable parameters are cast to fp32, unless pure_bf16 is on; the base beside adapters is not."""
    assert job(FACTORY | {"bf16": True}).precision == Precision(weights="fp32", compute="bf16", autocast=True)
    assert job(FACTORY | {"pure_bf16": True}).precision == Precision(weights="bf16", compute="bf16")
    lora = FACTORY | {"finetuning_type": "lora", "bf16": True}
    assert job(lora).precision == Precision(weights="bf16", compute="bf16", autocast=True)
    assert job(lora).method.lora == Lora(rank=8, targets=("all-linear",))


def test_checkpointing_of_llama_factory_is_on():
    assert job(FACTORY).checkpointing == Checkpointing(mode="full", reentrant=True)
    assert job(FACTORY | {"disable_gradient_checkpointing": True}).checkpointing.mode == "none"
    assert job(FACTORY | {"stage": "pt"}).batch.packed
    assert "stage = dpo" in refused(FACTORY | {"stage": "dpo"})
    assert "use_galore" in refused(FACTORY | {"use_galore": True})


def test_precisions_of_lightning():
    for name, expected in (
        ("32-true", Precision()),
        ("16-mixed", Precision(weights="fp32", compute="fp16", autocast=True)),
        ("bf16-true", Precision(weights="bf16", compute="bf16")),
    ):
        assert job({"trainer": {"precision": name, "devices": 1}}).precision == expected
    assert "64" in refused({"trainer": {"precision": "64-true"}})


def test_a_printed_trainer_of_lightning():
    found, _ = merge(
        read(
            "Trainer(accelerator='gpu', devices=8, strategy='deepspeed_stage_3_offload', precision='bf16-mixed')"
        )
    )
    assert found.parallel == Parallel(strategy="zero3", data=8, offload_parameters=True)
    assert found.precision == Precision(weights="bf16", compute="bf16", master=True)
    assert (found.optimizer.offload, found.optimizer.state) == ("cpu", "fp32")
    found, _ = merge(read("trainer = Trainer(devices=[0, 1], accumulate_grad_batches=4)"))
    assert (found.parallel.strategy, found.parallel.data, found.batch.accumulation) == ("ddp", 2, 4)


def test_pretraining_with_litgpt():
    table = {
        "model_name": "pythia-160m",
        "precision": "bf16-mixed",
        "devices": 4,
        "train": {"global_batch_size": 64, "micro_batch_size": 4},
    }
    found = job(table)
    assert found.precision == Precision(weights="fp32", compute="bf16", autocast=True)
    assert (found.optimizer.impl, found.compile, found.batch.accumulation) == ("fused", True, 4)
    assert found.parallel.strategy == "fsdp1_hybrid_shard"


def test_litgpt_finetunes_whole_models_with_checkpoints_on_several_devices():
    table = {"checkpoint_dir": "checkpoints/acme/x", "train": {"global_batch_size": 8, "micro_batch_size": 1}}
    assert job(table | {"devices": 1}).checkpointing.mode == "none"
    assert job(table | {"devices": 2}).checkpointing.mode == "full"
    quantized = table | {"lora_r": 8, "quantize": "bnb.nf4-dq", "precision": "bf16-true"}
    assert job(quantized).method.quantization == Quantization(kind="nf4", double=True, head=True)
    assert job(quantized).optimizer == Optimizer(impl="bnb_paged", state="fp32", offload="paged")
