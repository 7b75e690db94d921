# ruff: noqa: E501 (lines as the frameworks print them)
"""Settings in the ways in which frameworks echo them."""

import pytest

from tests.evidence.facts.text import facts, pairs, settings


@pytest.mark.parametrize(
    "line",
    [
        "batch_size: 4",
        "  batch_size: 4",
        "batch_size = 4",
        "Overriding: batch_size = 6\nOverriding: batch_size = 4",
        "batch_size=4,",
        "'batch_size': 4,",
        '  "batch_size": 4,',
        "config: {'model': 'net-7b', 'batch_size': 4, 'lr': 0.0003}",
        "  micro_batch_size .............................. 4",
        "| batch_size | 4 |",
        "python train.py --batch-size 4 --lr 1e-4",
        "+ torchrun --nproc_per_node 1 train.py --micro_batch_size=4",
        "['/opt/bin/python', '-u', 'train.py', '--per_device_train_batch_size', '4', '--fp16']",
        "Namespace(batch_size=4, lr=0.1)",
        "2025-03-04 09:00:00 | INFO | args: config=tiny.py, batch 4, image 640",
        "num train images: 120, batch size 4, total steps 1600",
        "batch size per device / バッチサイズ: 4",
        "run lm: seq_len 8192, micro_batch 4, steps 60, dtype bf16",
        "[2025-03-04 10:11:09,410] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  4",
        "trying batch size 4",
        "step 0 micro_batch 4 loss 2.34",
    ],
)
def test_one_setting_in_every_style(line):
    assert settings(line)["batch_size"] == "4"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("gradient_accumulation_steps: 8", "accumulation", "8"),
        ("accumulate_grad_batches=2", "accumulation", "2"),
        ("max_seq_length: 2048", "sequence_length", "2048"),
        ("n_ctx: 512", "sequence_length", "512"),
        ("cutoff_len: 4096", "sequence_length", "4096"),
        ("block_size = 1024", "sequence_length", "1024"),
        ("vocab 12004, seq 900, hidden 512, batch 32", "sequence_length", "900"),
        ("vocab 12004, seq 900, hidden 512, batch 32", "vocab_size", "12004"),
        ("  padded_vocab_size ............................. 195072", "vocab_size", "195072"),
        ("optimizer: bert_adam", "optimizer", "bert_adam"),
        ("optim=OptimizerNames.ADAMW_TORCH,", "optimizer", "ADAMW_TORCH"),
        ("optim=<OptimizerNames.PAGED_ADAMW: 'paged_adamw_32bit'>,", "optimizer", "paged_adamw_32bit"),
        ("optimizer = dict(type='PagedAdamW32bit', lr=0.0002)", "optimizer", "PagedAdamW32bit"),
        ("prepare optimizer: AdaFactor, full fine-tune", "optimizer", "AdaFactor"),
        ("gradient_checkpointing: False", "checkpointing", "false"),
        ("grad_checkpoint: True", "checkpointing", "true"),
        ("use_gradient_checkpointing='unsloth'", "checkpointing", "true"),
        ("  recompute_granularity ........................... full", "checkpointing", "true"),
        ("Gradient checkpointing enabled.", "checkpointing", "true"),
        ("sdxl, gradient checkpointing on, batch 4", "checkpointing", "true"),
        ("mixed_precision: bf16", "mixed_precision", "bf16"),
        ("use 8-bit Adam optimizer: False, mixed precision: no (fp32)", "mixed_precision", "no"),
        ("Mixed precision type: fp16", "mixed_precision", "fp16"),
        ("precision: bf16-mixed", "mixed_precision", "bf16"),
        ("precision: bf16-true", "dtype", "bf16"),
        ("fp16 .......................................... True", "mixed_precision", "fp16"),
        ('"fp16": {"enabled": true}', "mixed_precision", "fp16"),
        ("torch_dtype: torch.bfloat16", "dtype", "bf16"),
        ("loading base weights dtype torch.float32", "dtype", "fp32"),
        ("config.json: load_in_4bit true, lora_rank 16", "quantization", "4bit"),
        ("config.json: load_in_4bit true, lora_rank 16", "lora_rank", "16"),
        ("load_in_8bit=True", "quantization", "8bit"),
        ("video, 720p bucket, LoRA rank 64", "lora_rank", "64"),
        ("strategy: colossalai_zero2", "zero_stage", "2"),
        ("strategy=deepspeed_stage_3_offload", "zero_stage", "3"),
        ("zero_stage: 1", "zero_stage", "1"),
        ("model ready, 6738.4M parameters, world size 4", "world_size", "4"),
        ("using world size: 1, data-parallel-size: 1", "world_size", "1"),
        ("resume: /workspace/runs/a", "resume", "/workspace/runs/a"),
        ("Overriding: init_from = resume", "resume", "true"),
        ("pretrain: /models/llm-7b", "model", "/models/llm-7b"),
        ("model_name_or_path=meta-llama/Llama-3.1-8B", "model", "meta-llama/Llama-3.1-8B"),
        ("deepspeed=ds_config.json", "framework", "deepspeed"),
        ("fsdp=[<FSDPOption.FULL_SHARD: 'full_shard'>]", "framework", "fsdp"),
        ("distributed_type: FSDP", "framework", "fsdp"),
        ("per_device_eval_batch_size=8,", "eval_batch_size", "8"),
    ],
)
def test_names_and_values(line, name, value):
    assert (name, value) in pairs(line)


@pytest.mark.parametrize(
    "line",
    [
        "global_batch_size: 64",
        "global batch size 64, warmup 10",
        "Total train batch size (w. parallel, distributed & accumulation) = 32",
        "Total train batch size = 32",
        "effective batch size: 32",
        "max batch_size: 64",
        "tokens per micro-batch 16384, lr 1e-4",
        "batch size 500M tokens requested",
        "batch_size: auto",
        "batch_size: 0",
        "batch_size: 1e3",
        "batch size is 4 times too large",
        "reduce the batch size to 4",
        "usage: train.py [-h] [--batch_size BATCH_SIZE] [--fp16]",
        "NOTE: lower --batch_size 4 when it fails",
        "epoch 3, batch 12, loss 0.4",
        "batch 3/100",
        "moving batch 0 to device",
        "make_vocab_size_divisible_by .................. 128",
        "max_len_in_batch: 13904",
        "seq_len: longest in data",
        "model_max_length: 1000000000000000019884624838656",
        "optimizer: False",
        "INFO optimizer: step took 3 s",
        "fp16: False",
        "gradient_checkpointing",
        "model 124.4M parameters built",
        "resume_from_checkpoint: None",
        "resume: False",
        "init_from: scratch",
        "deepspeed=None",
        "fsdp=[]",
        "load_in_4bit: false",
        "compute dtype: bfloat16",
        "FutureWarning: `torch_dtype` is deprecated! Use `dtype` instead!",
    ],
)
def test_what_is_not_a_setting(line):
    assert settings(line, "progress", "total_params") == {}


@pytest.mark.parametrize(
    "code",
    [
        "    trainer = Trainer(model, args, batch_size=8)",
        "    model = Auto.from_pretrained(path, torch_dtype=bf16)",
        "    return torch.empty(*size, dtype=torch.float32, device=device)",
        "    batch_size = 8",
        "    loss = step(batch, seq_len=512)",
    ],
)
def test_source_lines_of_a_traceback(code):
    assert settings(f'  File "/workspace/train.py", line 12, in main\n{code}') == {}


def test_deepspeeds_train_batch_size_is_global():
    text = """\
[2025-03-04 09:00:51,118] [INFO] [config.py:1001:print]   train_batch_size ............. 128
[2025-03-04 09:00:51,118] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  4
"""
    assert pairs(text, "batch_size") == [("batch_size", "4")]
    assert pairs("  train_batch_size: 1\n  validation_steps: 100", "batch_size") == [("batch_size", "1")]


def test_deepspeeds_json():
    text = """\
{
    "train_batch_size": 128,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 8,
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": 2e-5}
    },
    "bf16": {
        "enabled": true
    },
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {
            "device": "cpu"
        }
    }
}"""
    assert settings(text) == {
        "batch_size": "4",
        "accumulation": "8",
        "optimizer": "AdamW",
        "mixed_precision": "bf16",
        "zero_stage": "3",
        "offload": "cpu:optimizer",
    }
    (optimizer,) = (fact for fact in facts(text) if fact.name == "optimizer")
    assert optimizer.quote.line == 6


def test_training_arguments():
    text = """\
TrainingArguments(
_n_gpu=1,
bf16=True,
deepspeed=None,
fp16=False,
fsdp=[],
gradient_accumulation_steps=8,
gradient_checkpointing=True,
optim=OptimizerNames.ADAMW_TORCH,
per_device_eval_batch_size=8,
per_device_train_batch_size=2,
resume_from_checkpoint=None,
)"""
    assert settings(text) == {
        "mixed_precision": "bf16",
        "accumulation": "8",
        "checkpointing": "true",
        "optimizer": "ADAMW_TORCH",
        "eval_batch_size": "8",
        "batch_size": "2",
    }


def test_no_mixed_precision_only_when_both_halves_are_off():
    assert settings("bf16=False,\nfp16=False,") == {"mixed_precision": "no"}
    assert settings("bf16=False,") == {}
    assert settings("bf16=False,\nfp16=True,") == {"mixed_precision": "fp16"}


def test_a_flag_without_value_on_a_command_line():
    assert settings("+ python train.py --batch 8 --fp16") == {"batch_size": "8", "mixed_precision": "fp16"}
    assert settings("accelerate launch t.py --gradient_checkpointing --lr 1")["checkpointing"] == "true"
    assert "checkpointing" not in settings("python t.py --no-gradient-checkpointing")


def test_an_evaluations_batch_is_not_the_trainings():
    assert settings("train:\n  batch_size: 4\neval:\n  batch_size: 16") == {
        "batch_size": "4",
        "eval_batch_size": "16",
    }
    assert settings("val_dataloader = dict(\n    batch_size=1,\n    num_workers=2)") == {
        "eval_batch_size": "1"
    }
    assert settings("{'train': {'batch_size': 4}, 'val': {'batch_size': 2}}") == {
        "batch_size": "4",
        "eval_batch_size": "2",
    }


def test_a_models_own_config_is_not_the_jobs():
    text = """\
Model config LlamaConfig {
  "hidden_size": 4096,
  "max_length": 20,
  "torch_dtype": "float16",
  "vocab_size": 128256
}
Generate config GenerationConfig {
  "max_length": 4096
}"""
    assert settings(text) == {"vocab_size": "128256"}


def test_rl_trainers_hold_other_models_settings_too():
    text = (
        "{'actor_rollout_ref': {'actor': {'ppo_micro_batch_size_per_gpu': 4}, 'rollout': {'gpu_memory_utilization': 0.4, "
        "'dtype': 'bfloat16'}}, 'data': {'train_batch_size': 1024}}"
    )
    assert settings(text) == {"batch_size": "4", "engine_utilization": "0.4"}


def test_an_engines_config_is_not_the_trainings():
    line = "Initializing a V1 LLM engine with config: model='/models/a-7b', dtype=torch.bfloat16, max_seq_len=4096"
    assert settings(line) == {}
