"""Megatron-LM's arguments: flags of a command or shell script, or the dump that it prints.

Source of keys and defaults: megatron/training/arguments.py, megatron/core/distributed, megatron/core/optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.hf_keys import put_optimizer
from oomph.job.importers.formats.megatron_model import put_model
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import (
    flag,
    noted,
    off,
    refused,
    to_choice,
    to_flag,
    to_share,
    to_whole,
    whole,
)

_SOURCE = "Megatron-LM's default"


def _recompute(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    if name == "full":
        collector.put("checkpointing.mode", "full", key, value)
    elif name == "selective":
        collector.refuse(key, value, "the core of attention is recomputed; planned is without checkpointing")
    elif not off(value):
        collector.refuse(key, value)


def _layers(collector: Collector, key: str, value: object) -> None:
    collector.put("given.recompute_layers", whole(value) or 1, key, value)


def _backend(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower().rsplit(".", 1)[-1]
    if name in ("flash", "fused", "auto"):
        collector.put("attention", "sdpa_flash", key, value)
    elif name in ("unfused", "local"):
        collector.put("attention", "eager", key, value)
    elif not off(value):
        collector.refuse(key, value)


def _fp8(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        collector.put("precision.compute", "fp8", key, value)


def _more_than(least: int, why: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        if (whole(value) or 0) > least:
            collector.refuse(key, value, why)

    return handle


_OPTIMIZERS = {"adam": "adamw", "sgd": "sgd"}

_KEYS: dict[str, Handler] = {
    "num_layers": to_whole("given.layers"),
    "hidden_size": to_whole("given.hidden"),
    "ffn_hidden_size": to_whole("given.ffn"),
    "num_attention_heads": to_whole("given.heads"),
    "num_query_groups": to_whole("given.groups"),
    "group_query_attention": to_flag("given.grouped"),
    "kv_channels": to_whole("given.head_dim"),
    "max_position_embeddings": to_whole("given.positions"),
    "vocab_size": to_whole("given.vocab"),
    "padded_vocab_size": to_whole("given.padded_vocab"),
    "make_vocab_size_divisible_by": to_whole("given.vocab_multiple"),
    "seq_length": to_whole("batch.sequence"),
    "encoder_seq_length": to_whole("batch.sequence"),
    "micro_batch_size": to_whole("batch.micro"),
    "global_batch_size": to_whole("given.global_batch"),
    "tensor_model_parallel_size": to_whole("parallel.tensor"),
    "pipeline_model_parallel_size": to_whole("parallel.pipeline"),
    "context_parallel_size": to_whole("parallel.context"),
    "expert_model_parallel_size": to_whole("parallel.expert"),
    "data_parallel_size": to_whole("parallel.data"),
    "world_size": to_whole("hardware.gpus"),
    "sequence_parallel": to_flag("parallel.sequence_parallel"),
    "num_layers_per_virtual_pipeline_stage": to_whole("given.virtual"),
    "virtual_pipeline_model_parallel_size": to_whole("given.virtual"),
    "bf16": to_flag("given.bf16"),
    "fp16": to_flag("given.fp16"),
    "fp8_format": _fp8,
    "fp8": _fp8,
    "swiglu": to_flag("given.swiglu"),
    "normalization": to_choice("given.norm", {"rmsnorm": "rms", "layernorm": "layer"}),
    "position_embedding_type": to_choice(
        "given.position", {"rope": "rope", "learned_absolute": "learned", "none": "none"}
    ),
    "use_rotary_position_embeddings": to_flag("given.rope"),
    "untie_embeddings_and_output_weights": to_flag("given.untie"),
    "disable_bias_linear": to_flag("given.no_bias"),
    "add_bias_linear": to_flag("given.no_bias", invert=True),
    "add_qkv_bias": to_flag("given.qkv_bias"),
    "qk_layernorm": to_flag("given.qk_norm"),
    "use_distributed_optimizer": to_flag("given.distributed_optimizer"),
    "optimizer": to_choice("given.optimizer_name", _OPTIMIZERS),
    "recompute_activations": to_flag("given.selective"),
    "recompute_granularity": _recompute,
    "recompute_method": to_choice(
        "given.recompute_method", {"uniform": "uniform", "block": "block", "none": ""}
    ),
    "recompute_num_layers": _layers,
    "attention_backend": _backend,
    "use_flash_attn": to_flag("given.flash"),
    "accumulate_allreduce_grads_in_fp32": to_flag("given.fp32_grads"),
    "grad_reduce_in_bf16": to_flag("given.bf16_grads"),
    "cross_entropy_loss_fusion": to_flag("given.fused_ce"),
    "optimizer_cpu_offload": to_flag("given.cpu_offload"),
    "hidden_dropout": to_share("given.hidden_dropout"),
    "attention_dropout": to_share("given.attention_dropout"),
    "fp8_param_gather": noted("weights are planned in bf16, which needs more"),
    "num_experts": _more_than(0, "experts of Megatron"),
    "use_torch_fsdp2": refused("FSDP of PyTorch inside Megatron"),
    "use_megatron_fsdp": refused("Megatron's FSDP"),
    "use_custom_fsdp": refused("Megatron's FSDP"),
    "use_precision_aware_optimizer": refused("moments of other dtypes"),
    "cpu_offloading": refused("activations on the host"),
    "multi_latent_attention": refused("latent attention in Megatron"),
    "mtp_num_layers": _more_than(0, "multi-token prediction"),
    "hybrid_override_pattern": refused("layers of different kinds"),
    "step_batch_size_schedule": refused("the batch grows"),
    "rampup_batch_size": refused("the batch grows"),
    "lora_r": refused(),
}


def read(source: Source) -> Imported:
    """A dump, or the flags as a table."""
    collector = Collector("Megatron-LM", source.name)
    read_arguments(collector, source.table)
    return collector.done()


def read_arguments(collector: Collector, arguments: Mapping[str, object]) -> None:
    """Reads the arguments, with "-" or "_" in their names."""
    collector.put("framework.name", "megatron-lm", "kind", "Megatron-LM")
    plain = {key.replace("-", "_"): value for key, value in arguments.items()}
    # A dump prints all arguments; what is off says nothing.
    on = {
        key: value
        for key, value in plain.items()
        if key in _KEYS or value not in (None, False, 0, "None", "")
    }
    collector.read(on, _KEYS, harmless("megatron"))
    if any(flag(plain.get(key)) for key in ("squared_relu", "openai_gelu", "quick_geglu", "qk_clip")):
        collector.refuse("activation", "another one than GELU and SwiGLU")
    put_model(collector)
    _finish_precision(collector)
    _finish_parallel(collector)
    _finish_checkpointing(collector)
    name = str(collector.get("given.optimizer_name") or "adamw")
    # Transformer Engine's or Apex' fused kernels, on fp32 copies.
    put_optimizer(
        collector,
        (name, "fused", "fp32", "cpu" if collector.get("given.cpu_offload") else "none"),
        "optimizer",
        name,
    )
    collector.default("batch.packed", True, "Megatron-LM's data: sequences of full length")
    if collector.get("attention") is None:
        collector.default("attention", "sdpa_flash", "Megatron-LM with Transformer Engine: fused attention")


def _finish_precision(collector: Collector) -> None:
    half = "bf16" if collector.get("given.bf16") else "fp16" if collector.get("given.fp16") else ""
    weights = half or "fp32"
    collector.put("precision.weights", weights, "--bf16 or --fp16", half)
    collector.default("precision.compute", weights, "--bf16 or --fp16")
    if half:
        collector.put("precision.master", True, f"--{half}", "the optimizer has fp32 copies")
    # arguments.py turns accumulate_allreduce_grads_in_fp32 on with bf16.
    if (
        half == "bf16"
        and not collector.get("given.bf16_grads")
        and collector.get("given.fp32_grads") is not False
    ):
        collector.put("precision.grads", "fp32", "accumulate_allreduce_grads_in_fp32", "on with bf16")
    elif collector.get("given.fp32_grads"):
        collector.put("precision.grads", "fp32", "accumulate_allreduce_grads_in_fp32", True)


def _finish_parallel(collector: Collector) -> None:
    if collector.get("given.distributed_optimizer"):
        collector.put("given.many", "zero1", "use_distributed_optimizer", True)
        collector.note("use_distributed_optimizer is planned as ZeRO-1: states in shards, whole gradients")
    else:
        collector.default("given.many", "ddp", "Megatron-LM's DistributedDataParallel")
    if collector.get("given.virtual"):
        collector.put(
            "parallel.pipeline_schedule", "interleaved_1f1b", "num_layers_per_virtual_pipeline_stage", "given"
        )
    if collector.get("parallel.sequence_parallel") and (whole(collector.get("parallel.tensor")) or 1) == 1:
        collector.put(
            "parallel.sequence_parallel", False, "sequence_parallel", "without tensor parallelism it is off"
        )
    if (whole(collector.get("parallel.tensor")) or 1) > 1:
        collector.put(
            "loss", "loss_parallel", "tensor_model_parallel_size", "the loss is parallel over the vocabulary"
        )
        if collector.get("given.fused_ce"):
            collector.note("cross_entropy_loss_fusion: planned is the loss without it, which needs more")
    elif collector.get("given.fused_ce"):
        collector.put("loss", "triton_ce", "cross_entropy_loss_fusion", True)
    else:
        collector.default("loss", "eager_fp32", "Megatron-LM: cross entropy of fp32 logits")


def _finish_checkpointing(collector: Collector) -> None:
    collector.default("checkpointing.mode", "none", f"{_SOURCE} of recompute_granularity")
    if collector.get("given.selective"):
        collector.refuse(
            "recompute_activations",
            True,
            "the core of attention is recomputed; planned is without checkpointing",
        )
    layers = whole(collector.get("given.recompute_layers"))
    method = collector.get("given.recompute_method")
    if collector.get("checkpointing.mode") == "full" and (method == "block" or (layers or 1) > 1):
        collector.refuse("recompute_method", f"{method} with {layers} layers", "planned is every layer")
