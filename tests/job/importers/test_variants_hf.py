"""What transformers', DeepSpeed's and PEFT's keys say beside those of the files, and what is refused by name."""

from __future__ import annotations

import json

import pytest

from oomph.job.importers import read
from oomph.job.model import Evaluation, Lora, Optimizer, Parallel, Quantization
from tests.job.importers.tables import job, refused, unknown

TRAINER = {"output_dir": "out", "learning_rate": 1e-5, "per_device_train_batch_size": 1}


@pytest.mark.parametrize(
    ("optim", "expected"),
    [
        ("adamw_torch", Optimizer(impl="foreach")),
        ("adamw_torch_fused", Optimizer(impl="fused")),
        ("adamw_hf", Optimizer(impl="for_loop")),
        ("adamw_bnb_8bit", Optimizer(impl="bnb", state="int8")),
        ("adamw_torch_4bit", Optimizer(impl="torchao", state="int4")),
        ("paged_lion_32bit", Optimizer(name="lion", impl="bnb_paged", state="fp32", offload="paged")),
        ("adafactor", Optimizer(name="adafactor", impl="for_loop")),
        ("sgd", Optimizer(name="sgd", impl="foreach")),
    ],
)
def test_optimizers_of_transformers(optim, expected):
    assert job(TRAINER | {"optim": optim}).optimizer == expected


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"optim": "galore_adamw"}, "optim = galore_adamw"),
        ({"n_gpu": 4}, "DataParallel"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor"),
        ({"sharded_ddp": "simple"}, "sharded_ddp"),
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size = 0"),
        ({"per_device_train_batch_size": "many"}, "per_device_train_batch_size = many"),
        ({"fsdp": "size_wrap"}, "fsdp = size_wrap"),
        ({"fsdp": True, "fsdp_config": {"auto_wrap_policy": "SIZE_BASED_WRAP"}}, "units by size"),
        ({"fsdp": "full_shard", "fsdp_config": {"xla": True}}, "xla"),
        ({"attn_implementation": "my-kernel"}, "attn_implementation"),
        ({"torch_compile": True, "torch_compile_backend": "tvm"}, "torch_compile_backend"),
    ],
)
def test_what_arguments_cannot_be_said_is_refused(changes, says):
    assert says in refused(TRAINER | changes)


def test_liger_replaces_the_loss_unless_it_is_told_otherwise():
    assert job(TRAINER | {"use_liger_kernel": True}).loss == "fused_linear_ce"
    plain = {"fused_linear_cross_entropy": False, "cross_entropy": True}
    assert job(TRAINER | {"use_liger_kernel": True, "liger_kernel_config": plain}).loss == "triton_ce"
    assert job(TRAINER | {"use_liger_kernel": False}).loss == "default"


@pytest.mark.parametrize(
    ("fsdp", "config", "strategy", "units"),
    [
        ("full_shard auto_wrap", {}, "fsdp1_full_shard", "blocks"),
        ("full_shard", {}, "fsdp1_full_shard", "root"),
        ("shard_grad_op auto_wrap", {}, "fsdp1_shard_grad_op", "blocks"),
        ("hybrid_shard auto_wrap", {}, "fsdp1_hybrid_shard", "blocks"),
        ("full_shard auto_wrap", {"version": 2}, "fsdp2_full", "blocks"),
        (True, {"version": 2, "reshard_after_forward": False}, "fsdp2_no_reshard", "blocks"),
        (
            ["full_shard", "auto_wrap"],
            {"fsdp_backward_prefetch": "backward_post"},
            "fsdp1_full_shard",
            "blocks",
        ),
    ],
)
def test_fsdp_of_the_trainer(fsdp, config, strategy, units):
    parallel = job(TRAINER | {"fsdp": fsdp, "fsdp_config": config}, gpus=8).parallel
    assert (parallel.strategy, parallel.units, parallel.data) == (strategy, units, 8)
    if "fsdp_backward_prefetch" in config:
        assert parallel.backward_prefetch == "post"


def test_evaluation_is_planned_where_it_is_on():
    assert job(TRAINER | {"per_device_eval_batch_size": 4}).evaluation == Evaluation()
    on = {"eval_strategy": "epoch", "per_device_eval_batch_size": 4, "predict_with_generate": True}
    assert job(
        TRAINER | on | {"generation_max_length": 64, "generation_num_beams": 3}
    ).evaluation == Evaluation(batch=4, generate=64, beams=3)


def test_settings_of_adapters_count_where_they_are_on():
    assert job(TRAINER | {"lora_r": 16, "use_peft": False}).method.name == "full"
    assert job(
        TRAINER | {"lora_r": 16, "use_peft": True, "lora_target_modules": ["q_proj"]}
    ).method.lora == Lora(rank=16, targets=("q_proj",))


@pytest.mark.parametrize(
    ("zero", "expected"),
    [
        ({"stage": 1}, Parallel(strategy="zero1", data=4)),
        ({"stage": 2, "cpu_offload": True}, Parallel(strategy="zero2", data=4)),
        ({"stage": 3}, Parallel(strategy="zero3", data=4, zero_overlap_comm=True)),
        (
            {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}},
            Parallel(strategy="zero3", data=4, zero_overlap_comm=True, offload_parameters=True),
        ),
        (
            {"stage": "2", "reduce_bucket_size": "5e7", "contiguous_gradients": "false"},
            Parallel(
                strategy="zero2", data=4, zero_reduce_bucket=50_000_000, zero_contiguous_gradients=False
            ),
        ),
    ],
)
def test_zero(zero, expected):
    table = {"zero_optimization": zero, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
    found = job(table, gpus=4)
    assert found.parallel == expected
    on_host = zero.get("cpu_offload") or "offload_optimizer" in zero
    assert found.optimizer.offload == ("cpu" if on_host else "none")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"zero_optimization": {"stage": 0}}, "zero_optimization.stage = 0"),
        ({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}, "ZeRO++"),
        ({"zero_optimization": {"stage": 3, "mics_shard_size": 8}}, "MiCS"),
        ({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}, "only stage 3"),
        ({"zero_optimization": {"stage": 1}, "optimizer": {"type": "OneBitAdam"}}, "OneBitAdam"),
        ({"zero_optimization": {"stage": 1}, "compile": {"deepcompile": True}}, "DeepCompile"),
        ({"zero_optimization": {"stage": 1}, "elasticity": {"enabled": True}}, "elasticity"),
        ({"zero_optimization": {"stage": 1}, "amp": {"enabled": True}}, "apex"),
    ],
)
def test_what_deepspeed_does_and_a_job_cannot_say(changes, says):
    assert says in refused({"train_micro_batch_size_per_gpu": 1} | changes)


def test_settings_of_zero_that_need_less_than_what_is_planned_are_noted():
    table = {"zero_optimization": {"stage": 3, "sub_group_size": 1e8}, "bf16": {"enabled": True}}
    assert [note for note in read(json.dumps(table)).notes if "sub_group_size = 100000000.0" in note]
    table = {"zero_optimization": {"stage": 3, "sub_group_size": 1e9}, "bf16": {"enabled": True}}
    assert not [note for note in read(json.dumps(table)).notes if "sub_group_size" in note]


def test_parts_of_deepspeed_that_are_off_are_nothing():
    off = {"elasticity": {"enabled": False}, "amp": {"enabled": False}, "flops_profiler": {"enabled": False}}
    table = {"zero_optimization": {"stage": 1}, **off}
    assert not refused(table)
    assert not unknown(table)


def test_unknown_keys_of_zero_are_named():
    assert "zero_optimization.new_bucket = 5" in unknown({"zero_optimization": {"stage": 1, "new_bucket": 5}})


def test_adapters_that_peft_has_and_a_job_cannot_say():
    base = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}
    assert "rank_pattern" in refused(base | {"rank_pattern": {"q_proj": 4}})
    assert "layers_to_transform" in refused(base | {"layers_to_transform": [1, 2]})
    assert "bias" in refused(base | {"bias": "all"})
    assert "regular expression" in refused(base | {"target_modules": r".*\.(q|v)_proj"})
    assert not refused(base | {"rank_pattern": {}, "bias": "none", "use_rslora": True})


def test_full_names_of_modules_are_their_last_parts():
    table = {"peft_type": "LORA", "r": 8, "target_modules": ["self_attn.q_proj", "mlp.down_proj"]}
    assert job(table).method.lora.targets == ("q_proj", "down_proj")


def test_quantised_checkpoints():
    model = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
    assert job(model | {"quantization_config": gptq}).method.quantization == Quantization(
        kind="gptq4", block=128, prepared=True
    )
    assert "bits 8" in refused(model | {"quantization_config": gptq | {"bits": 8}})
    assert "awq" in refused(model | {"quantization_config": {"quant_method": "awq", "bits": 4}})
    assert "fp8" in refused(model | {"quantization_config": {"quant_method": "fp8"}})
    mxfp4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    assert "mxfp4" in refused(model | {"quantization_config": {**mxfp4, "dequantize": False}})
    assert job(model | {"quantization_config": mxfp4}).method.quantization is None
    assert not refused(model | {"quantization_config": mxfp4})
