"""Several files about one job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.job.importers import merge, read
from oomph.job.model import Batch, Lora, Model, Optimizer, Parallel, Precision, Quantization

FILES = Path(__file__).with_name("files")


def arguments(**changes):
    """TrainingArguments as JSON."""
    plain = {
        "output_dir": "out",
        "learning_rate": 1e-5,
        "per_device_train_batch_size": 2,
        "optim": "adamw_torch",
    }
    return read(json.dumps(plain | changes))


def deepspeed(**changes):
    return read(json.dumps({"zero_optimization": {"stage": 2}} | changes))


def accelerate(**changes):
    plain = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "num_processes": 8}
    return read("\n".join(f"{key}: {json.dumps(value)}" for key, value in (plain | changes).items()))


def test_model_trainer_accelerate_deepspeed_and_adapters_make_one_job():
    job, notes = merge(
        read(FILES / "config.json"),
        arguments(bf16=True, gradient_accumulation_steps=4),
        accelerate(distributed_type="DEEPSPEED", mixed_precision="bf16",
                   deepspeed_config={"deepspeed_config_file": "ds_zero3.json"}),
        read(FILES / "ds_zero3.json"),
        read(FILES / "adapter_config.json"),
    )  # fmt: skip
    # hidden_size 2048: transformers fills in h * h, 0.9 * h * h and 10 * h.
    assert job.parallel == Parallel(
        strategy="zero3",
        data=8,
        zero_reduce_bucket=2048 * 2048,
        zero_prefetch_bucket=int(0.9 * 2048 * 2048),
        zero_persistence_threshold=10 * 2048,
        zero_max_live_parameters=200_000_000,
        zero_overlap_comm=False,
    )
    assert job.precision == Precision(weights="bf16", compute="bf16", master=True)
    # "auto" is the trainer's: 2 samples, 4 steps.
    assert job.batch == Batch(micro=2, accumulation=4)
    assert job.optimizer == Optimizer(impl="foreach", state="fp32", offload="nvme")
    # DeepSpeed casts the adapters with the rest of the module.
    assert job.method.lora == Lora(
        rank=64,
        targets=("v_proj", "q_proj"),
        dropout=0.05,
        dtype="bf16",
        dora=True,
        modules_to_save=("embed_tokens", "lm_head"),
    )
    assert job.method.name == "lora"
    assert job.model.get("hidden_size") == 2048
    assert not [note for note in notes if "contradict" in note]


def test_the_order_of_the_files_is_not_what_decides():
    one = [arguments(bf16=True), accelerate(), read(FILES / "adapter_config.json")]
    assert merge(*one)[0] == merge(*reversed(one))[0]


def test_two_micro_batches_contradict_each_other():
    job, notes = merge(
        arguments(per_device_train_batch_size=2),
        deepspeed(train_micro_batch_size_per_gpu=4, bf16={"enabled": True}),
    )
    assert job.batch.micro == 4
    (note,) = [note for note in notes if "contradict" in note]
    assert "per_device_train_batch_size = 2" in note
    assert "train_micro_batch_size_per_gpu = 4" in note


def test_the_trainer_accumulates_by_its_own_argument():
    """transformers' Trainer ignores accelerate's gradient_accumulation_steps."""
    job, notes = merge(arguments(gradient_accumulation_steps=4), accelerate(gradient_accumulation_steps=2))
    assert job.batch.accumulation == 4
    assert [note for note in notes if "contradict" in note]


def test_the_trainers_precision_comes_before_the_launchers():
    assert merge(arguments(fp16=True), accelerate(mixed_precision="bf16"))[0].precision.compute == "fp16"
    # bf16=False is the default and says nothing: the launcher's word counts.
    assert merge(arguments(bf16=False), accelerate(mixed_precision="bf16"))[0].precision.compute == "bf16"
    assert merge(arguments(bf16=True), accelerate(mixed_precision="no"))[0].precision.compute == "bf16"


def test_several_processes_without_a_word_on_how_are_ddp():
    job, _ = merge(arguments(), accelerate())
    assert (job.parallel.strategy, job.parallel.data, job.hardware.gpus) == ("ddp", 8, 8)


def test_the_number_of_gpus_can_come_from_the_caller():
    job, _ = merge(read(FILES / "torchtune.yaml"), gpus=8)
    assert (job.parallel.strategy, job.parallel.data) == ("fsdp2_full", 8)
    job, _ = merge(
        deepspeed(train_batch_size=64, train_micro_batch_size_per_gpu=2, bf16={"enabled": True}), gpus=8
    )
    assert job.batch == Batch(micro=2, accumulation=4)


def test_where_nobody_counts_the_gpus_it_is_said():
    _, notes = merge(deepspeed(bf16={"enabled": True}))
    assert [note for note in notes if "how many GPUs" in note]


def test_ranks_that_do_not_divide_the_gpus_are_a_sentence():
    with pytest.raises(UsageError, match="12 GPUs are not divided by 8 ranks"):
        merge(read("torchrun --nproc_per_node 12 pretrain.py --num-layers 2 --hidden-size 8 --num-attention-heads 2 "
                   "--micro-batch-size 1 --tensor-model-parallel-size 8"))  # fmt: skip


def test_a_batch_of_all_ranks_that_does_not_fit_is_noted():
    _, notes = merge(
        deepspeed(train_batch_size=30, train_micro_batch_size_per_gpu=4, gradient_accumulation_steps=2),
        gpus=4,
    )
    assert [note for note in notes if "train_batch_size = 30" in note and "= 32" in note]


def test_auto_without_a_trainer_is_noted():
    _, notes = merge(read(FILES / "ds_zero3.json"))
    assert [note for note in notes if '"auto"' in note and "give them as well" in note]


def test_a_file_that_another_names_is_asked_for():
    _, notes = merge(arguments(deepspeed="ds_zero3.json"))
    assert [note for note in notes if "ds_zero3.json" in note and "give it as well" in note]
    _, notes = merge(arguments(deepspeed="ds_zero3.json"), read(FILES / "ds_zero3.json"))
    assert not [note for note in notes if "give it as well" in note]


def test_deepspeed_inside_the_arguments():
    job, _ = merge(
        arguments(deepspeed={"zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}), gpus=2
    )
    assert job.parallel.strategy == "zero1"
    assert job.precision.master


def test_bitsandbytes_and_adapters_are_qlora():
    job, notes = merge(
        arguments(bf16=True),
        read("BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')"),
        read(FILES / "adapter_config.json"),
    )
    assert job.method.name == "qlora"
    assert job.method.quantization == Quantization(kind="nf4", prepared=True)
    assert job.precision == Precision(weights="bf16", compute="bf16", autocast=True)
    assert [note for note in notes if "prepare_model_for_kbit_training" in note]


def test_fsdp_shards_of_a_full_training_are_fp32():
    """accelerate casts trainable parameters to fp32 before it shards them, where mixed precision is on."""
    fsdp = accelerate(
        distributed_type="FSDP",
        mixed_precision="bf16",
        fsdp_config={"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"},
    )
    job, _ = merge(arguments(dtype="bfloat16"), fsdp)
    assert job.precision == Precision(weights="fp32", compute="bf16", autocast=True)
    # Frozen weights beside adapters stay as they were loaded.
    job, _ = merge(arguments(dtype="bfloat16"), fsdp, read(FILES / "adapter_config.json"))
    assert job.precision.weights == "bf16"


def test_pure_bf16_has_no_autocast():
    job, _ = merge(arguments(torch_dtype="bfloat16"))
    assert job.precision == Precision(weights="bf16", compute="bf16")


def test_auto_dtype_is_that_of_config_json():
    job, _ = merge(arguments(dtype="auto"), read(FILES / "config.json"))
    assert job.precision.weights == "bf16"


def test_transformers_5_loads_as_stored_and_steps_fused():
    plain = {"output_dir": "out", "learning_rate": 1, "per_device_train_batch_size": 1}
    named = {"transformers_version": "5.2.0"}
    job, _ = merge(read(json.dumps(plain | named)), read(FILES / "config.json"))
    assert (job.precision.weights, job.optimizer.impl) == ("bf16", "fused")
    assert job.framework.version("transformers") == (5, 2, 0)
    job, _ = merge(read(json.dumps(plain)), read(FILES / "config.json"))
    assert (job.precision.weights, job.optimizer.impl) == ("fp32", "foreach")


def test_defaults_are_named_with_whose_they_are():
    plain = {"output_dir": "out", "learning_rate": 1, "num_train_epochs": 1}
    job, notes = merge(read(json.dumps(plain)))
    assert job.batch.micro == 8
    assert "batch.micro = 8: TrainingArguments' default of per_device_train_batch_size" in notes


def test_a_command_changes_what_a_file_says():
    job, notes = merge(
        read(
            "tune run --nproc_per_node 2 lora_finetune_distributed --config mine.yaml batch_size=4 compile=False"
        ),
        read(FILES / "torchtune.yaml"),
    )
    assert job.batch.micro == 4
    assert not job.compile
    assert job.parallel == Parallel(strategy="fsdp2_full", data=2)
    assert [note for note in notes if "replaces" in note]
    assert not [note for note in notes if "give it as well" in note]


def test_a_model_is_looked_up_by_its_name_and_else_kept():
    job, notes = merge(arguments(model_name_or_path="meta-llama/Llama-3.1-8B"))
    assert job.model.get("hidden_size") == 4096
    job, notes = merge(arguments(model_name_or_path="acme/small-llama"))
    assert job.model == Model(name="acme/small-llama")
    assert [note for note in notes if "config.json" in note]


def test_nothing_to_merge_is_a_sentence():
    with pytest.raises(UsageError, match="no file"):
        merge()


def test_what_versions_of_transformers_do_by_themselves():
    """Read in training_args.py of 4.53, 4.54, 5.8 and 5.10."""
    plain = {
        "output_dir": "out",
        "learning_rate": 1,
        "per_device_train_batch_size": 1,
        "fsdp": "full_shard auto_wrap",
    }
    for version, strategy, impl in (
        ("4.53.0", "fsdp1_full_shard", "foreach"),
        # Fused needs PyTorch 2.8, which nothing says here.
        ("4.57.1", "fsdp1_full_shard", "foreach"),
        ("5.8.0", "fsdp1_full_shard", "fused"),
        ("5.10.0", "fsdp2_full", "fused"),
    ):
        job, _ = merge(read(json.dumps(plain | {"transformers_version": version})), gpus=2)
        assert (job.parallel.strategy, job.optimizer.impl) == (strategy, impl)


def test_no_inner_path_is_printed():
    _, notes = merge(accelerate(distributed_type="FSDP"), accelerate(distributed_type="MULTI_GPU"))
    assert any(note.startswith("distributed_type = FSDP") and "contradict" in note for note in notes)
    assert not any("given." in note for note in notes)
