"""Which format a text has, by its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from oomph.errors import InputError, UsageError
from oomph.job.importers.imported import Imported
from oomph.job.importers.text import Source

Reader = Callable[[Source], Imported]

#: Format -> module in formats/ and its function; a module is loaded when a file of its format is read.
READERS: Mapping[str, tuple[str, str]] = {
    "config.json": ("hf_config", "read"),
    "TrainingArguments": ("training_arguments", "read"),
    "trainer_state.json": ("training_arguments", "read_state"),
    "TRL": ("trl", "read"),
    "Accelerate": ("accelerate", "read"),
    "DeepSpeed": ("deepspeed", "read"),
    "PEFT": ("peft", "read"),
    "BitsAndBytesConfig": ("bitsandbytes", "read"),
    "torchtitan": ("torchtitan", "read"),
    "torchtune": ("torchtune", "read"),
    "axolotl": ("axolotl", "read"),
    "LLaMA-Factory": ("llama_factory", "read"),
    "LitGPT": ("litgpt", "read"),
    "Lightning": ("lightning", "read"),
    "Megatron-LM": ("megatron", "read"),
    "command": ("command_line", "read"),
}
_TITAN = frozenset(
    {
        "job",
        "model",
        "training",
        "parallelism",
        "experimental",
        "activation_checkpoint",
        "optimizer",
        "checkpoint",
        "profiling",
        "metrics",
        "lr_scheduler",
        "float8",
        "compile",
        "comm",
        "quantize",
        "validation",
        "debug",
    }
)
_TRAINER_KEYS = frozenset(
    {
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "num_train_epochs",
        "output_dir",
        "gradient_checkpointing",
        "learning_rate",
        "optim",
    }
)
_TRL_KEYS = frozenset(
    {
        "packing",
        "eval_packing",
        "dataset_text_field",
        "max_length",
        "padding_free",
        "assistant_only_loss",
        "completion_only_loss",
        "max_prompt_length",
        "num_generations",
        "max_completion_length",
        "model_init_kwargs",
        "precompute_ref_log_probs",
        "missing_eos_penalty",
        "dataset_mixer",
        "use_peft",
        "use_liger_loss",
        "packing_strategy",
    }
)


def reader_of(kind: str) -> Reader:
    """The reader of a format that was named. UsageError for a name that is none."""
    for name in READERS:
        if name.lower() == kind.strip().lower():
            return _reader(name)
    raise UsageError(f"{kind[:100]!r} is no format that can be read (there are {', '.join(READERS)})")


def recognise(source: Source) -> Reader:
    """The reader of a text. InputError where no format is recognised."""
    return _reader(_kind(source))


def _reader(kind: str) -> Reader:
    module, function = READERS[kind]
    reader: Reader = getattr(import_module(f"oomph.job.importers.formats.{module}"), function)
    return reader


def _kind(source: Source) -> str:
    if source.syntax == "command":
        return "command"
    if source.syntax == "dump":
        return "Megatron-LM"
    if source.syntax == "printed":
        return _printed(source)
    if source.syntax == "toml" and len(_TITAN & set(source.table)) >= 2 and "training" in source.table:
        return "torchtitan"
    for kind, matches in _CHECKS.items():
        if matches(source.table):
            return kind
    keys = ", ".join(list(source.table)[:5])
    raise InputError(
        f"{source.name or 'the text'} is no configuration that is known here (its keys: {keys[:200]}); "
        f"known are {', '.join(READERS)}"
    )


def _printed(source: Source) -> str:
    name = source.printed
    if name in ("LoraConfig", "PeftConfig", "AdaLoraConfig"):
        return "PEFT"
    if name == "Trainer":
        return "Lightning"
    if name == "BitsAndBytesConfig":
        return name
    if name in ("TrainingArguments", "Seq2SeqTrainingArguments") or _TRAINER_KEYS & set(source.table):
        return "TrainingArguments" if name.endswith("TrainingArguments") else "TRL"
    if name.endswith("Config") and ("model_type" in source.table or "hidden_size" in source.table):
        return "config.json"
    raise InputError(
        f"{source.name or 'the text'} prints {name}, which is no configuration that is known here"
    )


def _has(table: Mapping[str, object], *keys: str) -> bool:
    return any(key in table for key in keys)


def _part(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


def _is_deepspeed(table: Mapping[str, object]) -> bool:
    halves = (_part(table, name) for name in ("fp16", "bf16", "bfloat16"))
    return _has(table, "train_micro_batch_size_per_gpu") or (
        isinstance(table.get("zero_optimization"), (Mapping, bool))
        or any("enabled" in half for half in halves)
    )


def _is_torchtune(table: Mapping[str, object]) -> bool:
    return any("_component_" in part for part in table.values() if isinstance(part, Mapping))


def _is_litgpt(table: Mapping[str, object]) -> bool:
    return _has(_part(table, "train"), "micro_batch_size", "global_batch_size") or (
        _has(table, "checkpoint_dir", "model_name")
        and _has(table, "lora_r", "quantize")
        and _has(table, "precision", "devices")
    )


def _is_trl(table: Mapping[str, object]) -> bool:
    return bool(_TRL_KEYS & set(table)) and len((_TRAINER_KEYS | {"model_name_or_path"}) & set(table)) >= 1


#: In this order: what is more specific first.
_CHECKS: Mapping[str, Callable[[Mapping[str, object]], bool]] = {
    "PEFT": lambda t: _has(t, "peft_type"),
    "trainer_state.json": lambda t: _has(t, "log_history") and _has(t, "global_step"),
    "DeepSpeed": _is_deepspeed,
    "torchtune": _is_torchtune,
    "LLaMA-Factory": lambda t: (
        _has(t, "finetuning_type", "cutoff_len", "lora_target") and not _has(t, "base_model")
    ),
    "axolotl": lambda t: (
        _has(t, "base_model") and _has(t, "micro_batch_size", "datasets", "sequence_len", "adapter")
    ),
    "Accelerate": lambda t: (
        _has(t, "distributed_type", "compute_environment")
        or (_has(t, "fsdp_config") and _has(t, "num_processes"))
    ),
    "LitGPT": _is_litgpt,
    "Lightning": lambda t: (
        isinstance(t.get("trainer"), Mapping) or _has(t, "accumulate_grad_batches", "accelerator")
    ),
    "config.json": lambda t: (
        _has(t, "model_type", "architectures", "_class_name") and not _has(t, "per_device_train_batch_size")
    ),
    "BitsAndBytesConfig": lambda t: (
        _has(t, "load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type", "quant_method")
        and not _TRAINER_KEYS & set(t)
    ),
    "TRL": _is_trl,
    "TrainingArguments": lambda t: (
        _has(t, "per_device_train_batch_size", "per_gpu_train_batch_size")
        or len((_TRAINER_KEYS | {"model_name_or_path", "lr_scheduler_type", "dataset_name"}) & set(t)) >= 3
    ),
    "torchtitan": lambda t: len(_TITAN & set(t)) >= 3 and "training" in t,
    "Megatron-LM": lambda t: (
        _has(t, "num_layers", "num-layers")
        and _has(t, "hidden_size", "hidden-size")
        and _has(t, "micro_batch_size", "micro-batch-size")
    ),
}
