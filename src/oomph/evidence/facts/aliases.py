"""The names under which frameworks print the same setting.

Spelled with underscores here; in logs the words may also be joined by hyphens or spaces. Names that mean something
else in one framework (DeepSpeed's `train_batch_size` is the global batch) are handled in configs.py.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES: Mapping[str, tuple[str, ...]] = {
    "batch_size": (
        "batch_size",
        "train_batch_size",
        "per_device_train_batch_size",
        "per_gpu_train_batch_size",
        "per_device_batch_size",
        "per_gpu_batch_size",
        "batch_size_per_device",
        "batch_size_per_gpu",
        "device_batch_size",
        "local_batch_size",
        "micro_batch_size",
        "micro_batch",
        "microbatch_size",
        "micro_batch_size_per_gpu",
        "train_micro_batch_size_per_gpu",
        "ppo_micro_batch_size_per_gpu",
        "samples_per_gpu",
        "batch",
    ),
    "eval_batch_size": (
        "eval_batch_size",
        "per_device_eval_batch_size",
        "per_gpu_eval_batch_size",
        "val_batch_size",
        "valid_batch_size",
        "validation_batch_size",
        "test_batch_size",
    ),
    "accumulation": (
        "accumulation_steps",
        "gradient_accumulation_steps",
        "grad_accumulation_steps",
        "grad_accum_steps",
        "gradient_accumulation",
        "grad_accumulation",
        "grad_accum",
        "accumulate_grad_batches",
        "accum_iter",
    ),
    "sequence_length": (
        "seq_length",
        "seq_len",
        "sequence_length",
        "sequence_len",
        "max_seq_length",
        "max_seq_len",
        "max_sequence_length",
        "max_length",
        "max_len",
        "model_max_length",
        "max_source_length",
        "cutoff_len",
        "block_size",
        "context_length",
        "tokens_per_sample",
        "n_ctx",
        "seq",
    ),
    "vocab_size": ("vocab_size", "padded_vocab_size", "n_vocab", "vocab"),
    "optimizer": ("optimizer", "optim", "optimizer_name", "optimizer_type"),
    "checkpointing": (
        "gradient_checkpointing",
        "grad_checkpointing",
        "grad_checkpoint",
        "use_gradient_checkpointing",
        "use_checkpoint",
        "activation_checkpointing",
        "enable_activation_checkpointing",
        "fsdp_activation_checkpointing",
        "checkpoint_activations",
        "recompute_granularity",
    ),
    "precision": ("precision", "mixed_precision", "mixed_precision_type"),
    "fp16": ("fp16", "fp16_enabled"),
    "bf16": ("bf16", "bfloat16_enabled"),
    "dtype": ("dtype", "torch_dtype", "weights_dtype", "weight_dtype", "model_dtype", "params_dtype"),
    "lora_rank": ("lora_rank", "lora_r", "lora_dim", "network_dim"),
    "load_in_4bit": ("load_in_4bit",),
    "load_in_8bit": ("load_in_8bit",),
    "quantization": ("quantization", "quantization_bit"),
    "zero_stage": ("zero_stage", "zero_optimization_stage"),
    "strategy": ("strategy",),
    "world_size": ("world_size",),
    "memory_fraction": ("memory_fraction", "per_process_memory_fraction"),
    "model": (
        "model",
        "model_name",
        "model_name_or_path",
        "pretrained_model_name_or_path",
        "base_model",
        "pretrain",
    ),
    "resume": ("resume", "resume_from", "resume_from_checkpoint", "init_from"),
    "deepspeed": ("deepspeed",),
    "fsdp": ("fsdp",),
    "distributed_type": ("distributed_type", "distributed_environment"),
}


def _spellings(name: str) -> set[str]:
    spaced = name.replace("_", " ")
    return {name, name.replace("_", "-"), spaced, spaced.replace("micro batch", "micro-batch")}


#: Spelling (lower case) -> what it sets.
ALIASES: Mapping[str, str] = {
    spelling: kind for kind, names in _NAMES.items() for name in names for spelling in _spellings(name)
}

#: Single words that are also ordinary English: they need a separator, or a comma on both sides.
COMMON_WORDS = frozenset(
    {
        "batch",
        "seq",
        "vocab",
        "optimizer",
        "optim",
        "precision",
        "dtype",
        "model",
        "resume",
        "strategy",
        "fsdp",
    }
    | {"deepspeed", "quantization", "pretrain", "fp16", "bf16"}
)
