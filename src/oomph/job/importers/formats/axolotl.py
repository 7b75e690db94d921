"""axolotl's YAML.

Source of keys and defaults: axolotl/utils/schemas, axolotl/utils/config/__init__.py, axolotl/loaders.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats import deepspeed, hf_fsdp, hf_keys
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import flag, noted, off, refused, table, to_flag, to_whole, whole

_SOURCE = "axolotl's default"
_OPTIMIZERS: dict[str, tuple[str, str, str | None, str]] = {
    **hf_keys.OPTIMIZERS,
    "ao_adamw_8bit": ("adamw", "torchao", "int8", "none"),
    "ao_adamw_4bit": ("adamw", "torchao", "int4", "none"),
    "muon": ("muon", "for_loop", None, "none"),
}


def _adapter(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower() if not off(value) else ""
    if name in ("lora", "qlora"):
        collector.put("given.lora", True, key, value)
        if name == "qlora":
            collector.put("given.qlora", True, key, value)
    elif name:
        collector.refuse(key, value)


def _linear(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("method.lora.targets", ("all-linear",), key, value)


def _half(name: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        if flag(value) or (isinstance(value, str) and value.strip().lower() in ("auto", "full")):
            collector.put("given.mixed", name, key, value)
            collector.put("given.weights", name, key, value)

    return handle


def _pure(name: str) -> Handler:
    """bfloat16 and float16: weights without autocast."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if flag(value):
            collector.put("given.weights", name, key, value)

    return handle


def _checkpointing(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, str) and value.lower() in ("offload", "offload_disk", "unsloth"):
        collector.put("checkpointing.mode", "full", key, value)
        collector.put("activation_offload", True, key, value)
    else:
        hf_keys.checkpointing(collector, key, value)


def _offloading(collector: Collector, key: str, value: object) -> None:
    if flag(value) or (isinstance(value, str) and value.lower() in ("legacy", "hidden_states")):
        collector.put("activation_offload", True, key, value)
    elif not off(value) and flag(value) is None:
        collector.refuse(key, value)


def _attention(name: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        if flag(value):
            collector.put("attention", name, key, value)

    return handle


def _deepspeed(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, Mapping):
        deepspeed.read_config(collector, value, parent=f"{key}.")
    elif isinstance(value, str) and value.strip():
        collector.put("given.needs.deepspeed", value.strip()[:300], key, value)


def _rl(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        collector.refuse(key, value, "it holds or runs more than one model, or generates")


def _plugins(collector: Collector, key: str, value: object) -> None:
    for name in value if isinstance(value, list) else []:
        plain = str(name).lower()
        if "liger" in plain:
            collector.put("given.liger", True, key, name)
        elif "cut_cross_entropy" in plain:
            collector.put("given.cut_ce", True, key, name)
        elif not any(word in plain for word in ("spectrum_logging", "lm_eval", "grokfast")):
            collector.refuse(key, name)


def _cut(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("loss", "fused_linear_ce", key, value)


def _fused_ce(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("loss", "triton_ce", key, value)


def _kernels(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.note(f"{key}: kernels that save less than what is planned")


def _bnb(collector: Collector, key: str, value: object) -> None:
    others = {name: held for name, held in table(value).items() if name != "bnb_4bit_use_double_quant"}
    if others:
        collector.refuse(key, others, "other settings of bitsandbytes")
    elif flag(table(value).get("bnb_4bit_use_double_quant")) is False:
        collector.put("given.single_quant", True, key, value)


def _device_map(collector: Collector, key: str, value: object) -> None:
    if not off(value) and value not in ("auto", "cuda"):
        collector.refuse(key, value, "layers on several GPUs of one process, or on the host")


def _max_memory(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        collector.refuse(key, value, "layers on several GPUs of one process, or on the host")


_KEYS: dict[str, Handler] = {
    "base_model": hf_keys.model_name,
    "micro_batch_size": to_whole("batch.micro"),
    "gradient_accumulation_steps": to_whole("batch.accumulation"),
    "batch_size": to_whole("given.batch_of_a_rank"),
    "sequence_len": to_whole("batch.sequence"),
    "sample_packing": to_flag("batch.packed"),
    "eval_batch_size": to_whole("given.eval_batch"),
    "val_set_size": noted("evaluation is planned where eval_batch_size is given"),
    "optimizer": hf_keys.optimizer(_OPTIMIZERS),
    "adapter": _adapter,
    "lora_r": to_whole("method.lora.rank"),
    "lora_dropout": hf_keys.dropout,
    "lora_target_modules": hf_keys.targets,
    "lora_target_linear": _linear,
    "lora_modules_to_save": hf_keys.modules_to_save,
    "peft_use_dora": hf_keys.dora,
    "load_in_4bit": to_flag("given.4bit"),
    "load_in_8bit": to_flag("given.8bit"),
    "gptq": refused("GPTQ weights whose bits and groups are in the model's config"),
    "bnb_config_kwargs": _bnb,
    "bf16": _half("bf16"),
    "fp16": _half("fp16"),
    "bfloat16": _pure("bf16"),
    "float16": _pure("fp16"),
    "fp8": refused("which operations run in fp8 is not said by a job"),
    "tf32": to_flag("given.tf32"),
    "gradient_checkpointing": _checkpointing,
    "gradient_checkpointing_kwargs": hf_keys.reentrant,
    "selective_checkpointing": refused("operators that are kept"),
    "activation_offloading": _offloading,
    "layer_offloading": refused("layers on the host"),
    "attn_implementation": hf_keys.attention,
    "flash_attention": _attention("flash_attention_2"),
    "sdp_attention": _attention("sdpa"),
    "eager_attention": _attention("eager"),
    "flex_attention": _attention("flex"),
    "xformers_attention": _attention("sdpa_efficient"),
    "sage_attention": refused(),
    "s2_attention": refused(),
    "deepspeed": _deepspeed,
    "fsdp": hf_fsdp.read_fsdp,
    "fsdp_config": hf_fsdp.read_fsdp_config,
    "fsdp_version": hf_fsdp.read_version,
    "tensor_parallel_size": to_whole("parallel.tensor"),
    "context_parallel_size": to_whole("parallel.context"),
    "sequence_parallel_degree": to_whole("parallel.context"),
    "dp_shard_size": to_whole("parallel.shard_size"),
    "dp_replicate_size": to_whole("given.replicate"),
    "torch_compile": hf_keys.compiled,
    "plugins": _plugins,
    "liger_fused_linear_cross_entropy": _cut,
    "liger_cross_entropy": _fused_ce,
    "cut_cross_entropy": _cut,
    "flash_attn_cross_entropy": _fused_ce,
    "chunked_cross_entropy": to_flag("given.chunked"),
    "flash_attn_fuse_mlp": _kernels,
    "flash_attn_rms_norm": _kernels,
    "embeddings_skip_upcast": noted(
        "the embedding stays in low precision; planned is fp32 beside quantised weights"
    ),
    "batch_flattening": noted("sequences are joined without padding; planned is a batch of full length"),
    "device_map": _device_map,
    "liger_rope": _kernels,
    "liger_rms_norm": _kernels,
    "liger_layer_norm": _kernels,
    "liger_glu_activation": _kernels,
    "liger_swiglu": _kernels,
    "lora_mlp_kernel": _kernels,
    "lora_qkv_kernel": _kernels,
    "lora_o_kernel": _kernels,
    "unfrozen_parameters": refused("parameters by regular expressions"),
    "freeze_mm_modules": refused("frozen parts of a vision-language model"),
    "rl": _rl,
    "reward_model": refused("reward modelling"),
    "process_reward_model": refused("reward modelling"),
    "qat": refused("training for a later quantisation"),
    "relora": refused(),
    "max_memory": _max_memory,
    "gpu_memory_limit": _max_memory,
    "ddp_bucket_cap_mb": hf_keys.bucket_mb,
    "auto_find_batch_size": noted("a batch that does not fit is halved; planned is the one that is written"),
    "tiled_mlp": refused("an MLP in parts of the sequence"),
    "peft_layers_to_transform": refused("adapters in some layers only"),
    "lora_rank_pattern": refused("ranks that differ between modules"),
    "lora_target_parameters": refused("adapters on parameters"),
    "peft_trainable_token_indices": refused("rows of the embedding that train"),
    "loss_type": refused(),
    "quantize_moe_experts": refused("experts that are quantised"),
}


def read(source: Source) -> Imported:
    """The YAML."""
    collector = Collector("axolotl", source.name)
    collector.put("framework.name", "axolotl", "kind", "axolotl")
    collector.read(source.table, _KEYS, harmless("axolotl"))
    _finish(collector, source.table)
    return collector.done()


def _finish(collector: Collector, settings: Mapping[str, object]) -> None:
    _finish_method(collector)
    if "fsdp" not in settings and table(settings.get("fsdp_config")):
        collector.put("given.fsdp.on", True, "fsdp_config", "given")
    hf_fsdp.finish_fsdp(collector, version=1, units="blocks")
    micro = whole(collector.get("batch.micro"))
    per_rank = whole(collector.get("given.batch_of_a_rank"))
    if micro and per_rank and collector.get("batch.accumulation") is None:
        collector.put("batch.accumulation", max(1, per_rank // micro), "batch_size", per_rank)
    collector.default("batch.micro", 1, f"{_SOURCE} of micro_batch_size")
    collector.default("batch.accumulation", 1, f"{_SOURCE} of gradient_accumulation_steps")
    collector.default("batch.sequence", 512, f"{_SOURCE} of sequence_len")
    collector.default("optimizer.name", "adamw", f"{_SOURCE} of optimizer (adamw_torch_fused)")
    collector.default("optimizer.impl", "fused", f"{_SOURCE} of optimizer (adamw_torch_fused)")
    collector.default("given.many", "ddp", "axolotl with several processes")
    if not collector.get("batch.packed"):
        filled = "max_length" if settings.get("pad_to_sequence_len") is True else "longest"
        collector.default("batch.padding", filled, "axolotl's collator fills up samples that are not packed")
    if collector.get("given.chunked"):
        collector.default("loss", "chunked_ce", "chunked_cross_entropy = true")
    evaluation = whole(collector.get("given.eval_batch"))
    if evaluation:
        collector.put("evaluation.batch", evaluation, "eval_batch_size", evaluation)
    if collector.get("given.replicate") and (whole(collector.get("given.replicate")) or 1) > 1:
        collector.put(
            "parallel.strategy", "fsdp2_hybrid_shard", "dp_replicate_size", collector.get("given.replicate")
        )
    # core/builders/base.py passes use_reentrant=False where none is written.
    if collector.get("checkpointing.mode") == "full":
        collector.default("checkpointing.reentrant", False, f"{_SOURCE} of gradient_checkpointing_kwargs")


def _finish_method(collector: Collector) -> None:
    if not collector.get("given.lora"):
        for path in [p for p in collector.values if p.startswith("method.lora.")]:
            del collector.values[path]
    else:
        # Adapters of bitsandbytes' weights and of plain ones alike are fp32 (PEFT autocasts adapters).
        collector.default("method.lora.rank", 8, "PEFT's default of r")
    four, eight = collector.get("given.4bit"), collector.get("given.8bit")
    if four or (collector.get("given.qlora") and four is None):
        # axolotl/loaders/model.py: nf4 with double quantisation, compute in the dtype of training.
        collector.put("method.quantization.kind", "nf4", "load_in_4bit", True)
        double = not collector.get("given.single_quant")
        collector.put("method.quantization.double", double, "load_in_4bit", double)
    elif eight and collector.get("given.lora"):
        collector.put("method.quantization.kind", "int8", "load_in_8bit", True)
    if "method.quantization.kind" in collector.values:
        sharded = "given.needs.deepspeed" in collector.values or "given.fsdp.on" in collector.values
        collector.default(
            "method.quantization.prepared", not sharded, "axolotl: prepare_model_for_kbit_training"
        )
