"""transformers' TrainingArguments: printed, saved as JSON or YAML, or the flags of a command line.

Source of keys and defaults: transformers/training_args.py, 4.x and 5.x.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats import deepspeed, hf_fsdp, hf_keys
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import (
    flag,
    noted,
    off,
    real,
    refused,
    table,
    to_flag,
    to_text,
    to_whole,
    whole,
)
from oomph.job.model import Framework

SOURCE = "TrainingArguments' default"


def _evaluates(collector: Collector, key: str, value: object) -> None:
    if not off(value) and str(value).lower().rsplit(".", 1)[-1] != "no" and flag(value) is not False:
        collector.put("given.evaluates", True, key, value)


def _adafactor(collector: Collector, key: str, value: object) -> None:
    """The switch of older versions, before `optim`."""
    if flag(value):
        hf_keys.put_optimizer(collector, hf_keys.OPTIMIZERS["adafactor"], key, value)


def _backend(collector: Collector, key: str, value: object) -> None:
    if value not in (None, "auto", "cuda_amp", "amp"):
        collector.refuse(key, value, "mixed precision of another kind")


def _deepspeed(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, dict):
        deepspeed.read_config(collector, value, parent=f"{key}.")
    elif isinstance(value, str) and value.strip():
        collector.put("given.needs.deepspeed", value.strip()[:300], key, value)


def _several_gpus(collector: Collector, key: str, value: object) -> None:
    if (whole(value) or 0) > 1:
        collector.refuse(key, value, "torch.nn.DataParallel: one process with several GPUs")


def _smoothing(collector: Collector, key: str, value: object) -> None:
    if (real(value) or 0) > 0:
        collector.refuse(key, value, "label smoothing has a loss of its own")


def _accelerator(collector: Collector, key: str, value: object) -> None:
    kwargs = table(table(value).get("gradient_accumulation_kwargs"))
    if flag(kwargs.get("sync_each_batch")):
        collector.note(f"{key}.gradient_accumulation_kwargs: sync_each_batch needs less than what is planned")


def _parallelism(collector: Collector, key: str, value: object) -> None:
    for name, path in (("tp_size", "tensor"), ("cp_size", "context"), ("dp_replicate_size", "")):
        number = whole(table(value).get(name))
        if number is not None and number > 1 and path:
            collector.put(f"parallel.{path}", number, f"{key}.{name}", number)
        elif number is not None and number > 1:
            collector.refuse(f"{key}.{name}", number)


KEYS: dict[str, Handler] = {
    "per_device_train_batch_size": to_whole("batch.micro"),
    "per_gpu_train_batch_size": to_whole("batch.micro"),
    "gradient_accumulation_steps": to_whole("batch.accumulation"),
    "per_device_eval_batch_size": to_whole("given.eval_batch"),
    "per_gpu_eval_batch_size": to_whole("given.eval_batch"),
    "eval_strategy": _evaluates,
    "evaluation_strategy": _evaluates,
    "do_eval": _evaluates,
    "eval_accumulation_steps": to_whole("evaluation.accumulation_steps"),
    "generation_max_length": to_whole("given.generate"),
    "generation_num_beams": to_whole("evaluation.beams"),
    "predict_with_generate": to_flag("given.generates"),
    "optim": hf_keys.optimizer(),
    "adafactor": _adafactor,
    "half_precision_backend": _backend,
    "fp16_backend": _backend,
    "bf16": hf_keys.mixed("bf16"),
    "fp16": hf_keys.mixed("fp16"),
    "bf16_full_eval": refused("the model is cast for evaluation"),
    "fp16_full_eval": refused("the model is cast for evaluation"),
    "tf32": to_flag("given.tf32"),
    "gradient_checkpointing": hf_keys.checkpointing,
    "activation_checkpointing": hf_keys.checkpointing,
    "gradient_checkpointing_kwargs": hf_keys.reentrant,
    "activation_checkpointing_kwargs": hf_keys.reentrant,
    "activation_offloading": to_flag("activation_offload"),
    "torch_compile": hf_keys.compiled,
    "torchdynamo": hf_keys.compiled,
    "torch_compile_backend": hf_keys.compiled,
    "use_liger_kernel": hf_keys.liger,
    "use_liger": hf_keys.liger,
    "liger_kernel_config": hf_keys.liger_config,
    "label_smoothing_factor": _smoothing,
    "neftune_noise_alpha": noted("the noise (one tensor as large as the embedding's output) is not counted"),
    "auto_find_batch_size": noted("a batch that does not fit is halved; planned is the one that is written"),
    "deepspeed": _deepspeed,
    "fsdp": hf_fsdp.read_fsdp,
    "fsdp_config": hf_fsdp.read_fsdp_config,
    "ddp_bucket_cap_mb": hf_keys.bucket_mb,
    "parallelism_config": _parallelism,
    "accelerator_config": _accelerator,
    "tp_size": to_whole("parallel.tensor"),
    "sharded_ddp": refused("fairscale"),
    "use_cpu": refused("training on the CPU"),
    "no_cuda": refused("training on the CPU"),
    "_n_gpu": _several_gpus,
    "n_gpu": _several_gpus,
    # Arguments that scripts put beside these: TRL's ModelConfig, run_clm's, and those of many training scripts.
    "model_name_or_path": hf_keys.model_name,
    "torch_dtype": hf_keys.loaded_as,
    "dtype": hf_keys.loaded_as,
    "attn_implementation": hf_keys.attention,
    "max_seq_length": to_whole("batch.sequence"),
    "max_seq_len": to_whole("batch.sequence"),
    "model_max_length": to_whole("batch.sequence"),
    "block_size": to_whole("batch.sequence"),
    "use_peft": to_flag("given.lora"),
    "use_lora": to_flag("given.lora"),
    "lora_enable": to_flag("given.lora"),
    "use_flash_attention_2": hf_keys.flash,
    "use_flash_attn": hf_keys.flash,
    "flash_attn": hf_keys.flash,
    "mixed_precision": hf_keys.mixed_precision,
    **hf_keys.LORA,
    **hf_keys.BITSANDBYTES,
    "transformers_version": to_text("given.version.transformers"),
}


def read(source: Source) -> Imported:
    """TrainingArguments as they were printed or saved."""
    collector = Collector("TrainingArguments", source.name)
    collector.put("framework.name", "transformers", "kind", "TrainingArguments")
    read_arguments(collector, source.table)
    return collector.done()


def read_state(source: Source) -> Imported:
    """trainer_state.json, which keeps the batch of a device and how often it was evaluated, and no other setting."""
    collector = Collector("trainer_state.json", source.name)
    to_whole("batch.micro")(collector, "train_batch_size", source.table.get("train_batch_size"))
    collector.note("trainer_state.json has the batch only: print the TrainingArguments for the rest")
    return collector.done()


def read_arguments(
    collector: Collector,
    arguments: Mapping[str, object],
    more: Mapping[str, Handler] | None = None,
    sections: tuple[str, ...] = (),
) -> None:
    """Reads arguments with these keys and `more`, and adds the defaults of transformers. `sections`: of harmless.txt,
    beside that of TrainingArguments."""
    keys = {**KEYS, **(more or {})}
    collector.read(arguments, keys, harmless("training_arguments", *sections))
    finish(collector, arguments)


def finish(collector: Collector, arguments: Mapping[str, object]) -> None:
    """What several keys say together, and the defaults."""
    hf_keys.finish_quantization(collector, arguments)
    hf_fsdp.finish_fsdp(collector, version=_fsdp_version(collector))
    if collector.get("given.lora") is False:
        for path in [p for p in collector.values if p.startswith("method.lora.")]:
            del collector.values[path]
    evaluation(collector)
    collector.default("batch.micro", 8, f"{SOURCE} of per_device_train_batch_size")
    collector.default("batch.accumulation", 1, f"{SOURCE} of gradient_accumulation_steps")
    collector.default("checkpointing.mode", "none", f"{SOURCE} of gradient_checkpointing")
    collector.default("given.many", "ddp", "transformers' Trainer with several processes")
    collector.default("given.optimizer", "hf", f"{SOURCE} of optim")


def _fsdp_version(collector: Collector) -> int | None:
    """1 until transformers 5.8, 2 from 5.10 (`_process_fsdp_args`); None where the version is not known."""
    text = str(collector.get("given.version.transformers") or "")
    version = Framework(versions=(("transformers", text),)).version("transformers")
    if version is None:
        return None
    return 2 if version >= (5, 10) else 1


def evaluation(collector: Collector) -> None:
    """Evaluation between steps, where it is on."""
    if not collector.get("given.evaluates"):
        for path in ("evaluation.accumulation_steps", "evaluation.beams"):
            collector.values.pop(path, None)
        return
    batch = collector.values.get("given.eval_batch")
    if batch is not None:
        collector.values["evaluation.batch"] = batch
    else:
        collector.default("evaluation.batch", 8, f"{SOURCE} of per_device_eval_batch_size")
    if collector.get("given.generates"):
        length = collector.values.get("given.generate")
        if length is not None:
            collector.values["evaluation.generate"] = length
        else:
            collector.refuse("predict_with_generate", True, "the length is in the model's generation config")
    collector.note(
        "evaluation is planned without logits that stay on the GPU: whether they do depends on compute_metrics, which "
        "no file says"
    )
