"""torchtitan's TOML, of its generations: [training] with batch_size (2024), local_batch_size and [parallelism] (2025),
[compile] and [quantize] (late 2025).

Source of keys and defaults: torchtitan/config_manager.py at 9dec370 (2024-12) and e7c0cae (2025-06),
torchtitan/parallelisms/parallelize_llama.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import (
    flag,
    noted,
    off,
    refused,
    table,
    to_dtype,
    to_flag,
    to_text,
    to_whole,
    whole,
    words,
)

#: [model] name and flavor -> the model on the hub whose dimensions it has.
_MODELS = {
    ("llama3", "8b"): "meta-llama/Llama-3.1-8B",
    ("llama3", "70b"): "meta-llama/Llama-3.1-70B",
    ("llama3", "405b"): "meta-llama/Llama-3.1-405B",
    ("llama2", "7b"): "meta-llama/Llama-2-7b-hf",
    ("llama2", "13b"): "meta-llama/Llama-2-13b-hf",
    ("llama2", "70b"): "meta-llama/Llama-2-70b-hf",
    ("deepseek_v3", "671b"): "deepseek-ai/DeepSeek-V3",
    ("deepseek_v3", "16b"): "deepseek-ai/DeepSeek-V2-Lite",
}
_SCHEDULES = {
    "gpipe": "gpipe",
    "1f1b": "1f1b",
    "interleaved1f1b": "interleaved_1f1b",
    "interleavedzerobubble": "zero_bubble",
    "zbvzerobubble": "zero_bubble",
}


def _positive(path: str) -> Handler:
    """A degree: -1 and null leave it to what remains."""

    def handle(collector: Collector, key: str, value: object) -> None:
        number = whole(value)
        if number is not None and number >= 1:
            collector.put(path, number, key, value)
        elif value is not None and number != -1:
            collector.refuse(key, value, "not a number of ranks")

    return handle


def _experts(collector: Collector, key: str, value: object) -> None:
    if (whole(value) or 0) > 1:
        collector.refuse(key, value, "experts that are split across tensor-parallel ranks")


def _microbatches(collector: Collector, key: str, value: object) -> None:
    collector.put("given.microbatches", value, key, value)


def _schedule(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower().replace("_", "")
    if name in _SCHEDULES:
        collector.put("parallel.pipeline_schedule", _SCHEDULES[name], key, value)
    elif not off(value):
        collector.put("given.schedule", str(value)[:100], key, value)


def _reshard(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    if name in ("default", "always", "never"):
        collector.put("given.reshard", name, key, value)
    else:
        collector.refuse(key, value)


def _implementation(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower().replace("-", "_")
    if name in ("fused", "foreach", "for_loop"):
        collector.put("optimizer.impl", name, key, value)
    else:
        collector.refuse(key, value)


def _fused(collector: Collector, key: str, value: object) -> None:
    if flag(value) is not None:
        collector.put("optimizer.impl", "fused" if flag(value) else "foreach", key, value)


def _name(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    if name in ("adamw", "adam"):
        collector.put("optimizer.name", name, key, value)
    else:
        collector.refuse(key, value)


def _converters(collector: Collector, key: str, value: object) -> None:
    for name in words(value) or ():
        if name.startswith(("float8", "quantize.linear.float8")):
            collector.put("given.fp8", True, key, value)
        else:
            collector.refuse(key, name)


def _selective(collector: Collector, key: str, value: object) -> None:
    collector.put("given.selective", str(value).strip().lower(), key, value)


def _mode(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    if name in ("none", "full", "selective"):
        collector.put("given.checkpoint_mode", name, key, value)
    else:
        collector.refuse(key, value)


def _compile_parts(collector: Collector, key: str, value: object) -> None:
    collector.put("given.compiled", ",".join(words(value) or ()), key, value)


_PARALLEL: dict[str, Handler] = {
    "data_parallel_replicate_degree": _positive("given.replicate"),
    "data_parallel_shard_degree": _positive("given.shard"),
    "data_parallel_degree": _positive("given.shard"),
    "tensor_parallel_degree": _positive("parallel.tensor"),
    "context_parallel_degree": _positive("parallel.context"),
    "pipeline_parallel_degree": _positive("parallel.pipeline"),
    "expert_parallel_degree": _positive("parallel.expert"),
    "expert_tensor_parallel_degree": _experts,
    "pipeline_parallel_schedule": _schedule,
    "pipeline_parallel_microbatches": _microbatches,
    "pipeline_parallel_microbatch_size": _microbatches,
    "disable_loss_parallel": to_flag("given.no_loss_parallel"),
    "fsdp_reshard_after_forward": _reshard,
    "enable_compiled_autograd": refused("compiled autograd"),
    "pipeline_parallel_schedule_csv": refused("a schedule of its own"),
}
_SECTIONS: dict[str, dict[str, Handler]] = {
    "model": {
        "name": to_text("given.model"),
        "flavor": to_text("given.flavor"),
        "converters": _converters,
    },
    "training": {
        **_PARALLEL,
        "batch_size": to_whole("batch.micro"),
        "local_batch_size": to_whole("batch.micro"),
        "global_batch_size": _positive("given.global_batch"),
        "seq_len": to_whole("batch.sequence"),
        "enable_cpu_offload": to_flag("parallel.offload_parameters"),
        "mixed_precision_param": to_dtype("given.param"),
        "mixed_precision_reduce": to_dtype("precision.reduce"),
        "dtype": to_dtype("given.weights"),
        "compile": to_flag("given.compile"),
        "enable_float8_linear": to_flag("given.fp8"),
        "enable_fp8_linear": to_flag("given.fp8"),
        "data_parallel_type": to_text("given.data_parallel_type"),
    },
    "parallelism": _PARALLEL,
    "experimental": {**_PARALLEL, "enable_compiled_autograd": refused("compiled autograd")},
    "optimizer": {
        "name": _name,
        "implementation": _implementation,
        "fused": _fused,
        "early_step_in_backward": to_flag("given.in_backward"),
    },
    "activation_checkpoint": {"mode": _mode, "selective_ac_option": _selective},
    "float8": {
        "enable_fsdp_float8_all_gather": noted("gathered weights are planned in bf16, which needs more"),
        "enable_float8_linear": to_flag("given.fp8"),
        "enable_fp8_linear": to_flag("given.fp8"),
    },
    "compile": {"enable": to_flag("given.compile"), "components": _compile_parts},
    "mx": {},
    "fault_tolerance": {"enable": refused("replicas that come and go")},
    "validation": {
        "enable": to_flag("given.evaluates"),
        "local_batch_size": to_whole("given.eval_batch"),
        "seq_len": to_whole("given.eval_seq"),
    },
}


def read(source: Source) -> Imported:
    """The TOML (or the same keys as flags of a command line, nested)."""
    collector = Collector("torchtitan", source.name)
    read_tables(collector, source.table)
    return collector.done()


def read_tables(collector: Collector, tables: Mapping[str, object]) -> None:
    """Reads all sections."""
    collector.put("framework.name", "torchtitan", "kind", "torchtitan")
    for section, content in tables.items():
        keys = _SECTIONS.get(section)
        if keys is None and section in harmless("torchtitan.sections"):
            continue
        if keys is None or not isinstance(content, Mapping):
            collector.read({section: content}, {})
            continue
        collector.read(content, keys, harmless("torchtitan"), parent=f"{section}.")
    quantized = table(table(table(tables.get("quantize")).get("linear")).get("float8"))
    if quantized and "float8" in str(table(tables.get("model")).get("converters")):
        collector.put("given.fp8", True, "quantize.linear.float8", "in model.converters")
    training = table(tables.get("training"))
    new = "parallelism" in tables or "local_batch_size" in training
    _finish(collector, new=new)


def _finish(collector: Collector, *, new: bool) -> None:
    name, flavor = str(collector.get("given.model") or ""), str(collector.get("given.flavor") or "")
    known = _MODELS.get((name.lower(), flavor.lower()))
    if known is not None:
        collector.put("model.name", known, "model", f"{name} {flavor}")
    elif name:
        collector.put("model.name", f"{name} {flavor}".strip(), "model", f"{name} {flavor}")
    source = f"torchtitan's default {'(2025)' if new else '(2024)'}"
    _finish_parallel(collector)
    _finish_precision(collector, source)
    _finish_checkpointing(collector, source)
    collector.default("batch.micro", 8, f"{source} of {'local_' if new else ''}batch_size")
    collector.default("batch.sequence", 2048, f"{source} of seq_len")
    collector.default("batch.packed", True, "torchtitan's data loader fills every sequence")
    collector.default("optimizer.name", "adamw", f"{source} of optimizer.name")
    collector.default(
        "optimizer.impl", "fused" if new else "foreach", f"{source} of the optimizer's implementation"
    )
    if collector.get("given.in_backward"):
        collector.put("optimizer.impl", "in_backward", "optimizer.early_step_in_backward", True)
    _finish_loss(collector, new=new, source=source)
    if collector.get("parallel.offload_parameters"):
        collector.put("optimizer.offload", "cpu", "training.enable_cpu_offload", True)
    if collector.get("given.evaluates"):
        collector.put(
            "evaluation.batch", collector.get("given.eval_batch") or 8, "validation.local_batch_size", 8
        )


def _finish_parallel(collector: Collector) -> None:
    replicate, shard = whole(collector.get("given.replicate")) or 1, whole(collector.get("given.shard"))
    sharded = "fsdp2_no_reshard" if collector.get("given.reshard") == "never" else "fsdp2_full"
    if (
        collector.get("given.reshard") in (None, "default")
        and (whole(collector.get("parallel.pipeline")) or 1) > 1
    ):
        sharded = "fsdp2_no_reshard"  # parallelize_llama: reshard_after_forward = not pp_enabled
    if replicate > 1:
        sharded = "ddp" if shard == 1 else "fsdp2_hybrid_shard"
    elif collector.get("given.data_parallel_type") == "ddp":
        sharded = "ddp"
    if shard is not None:
        collector.put("parallel.data", replicate * shard, "data_parallel_*_degree", f"{replicate} x {shard}")
        if replicate > 1 and shard > 1:
            collector.put("parallel.shard_size", shard, "data_parallel_shard_degree", shard)
    if (shard or 1) * replicate > 1:
        collector.put("parallel.strategy", sharded, "data_parallel_*_degree", f"{replicate} x {shard}")
    collector.default("given.many", sharded, "torchtitan: data_parallel_shard_degree = -1 takes all ranks")
    if (whole(collector.get("parallel.tensor")) or 1) > 1:
        collector.put(
            "parallel.sequence_parallel", True, "tensor_parallel_degree", "torchtitan splits the sequence"
        )
    if (whole(collector.get("parallel.pipeline")) or 1) > 1 and "given.schedule" in collector.values:
        collector.refuse("pipeline_parallel_schedule", collector.get("given.schedule"))
    if (whole(collector.get("parallel.pipeline")) or 1) > 1 and collector.get(
        "given.microbatches"
    ) is not None:
        collector.refuse(
            "pipeline_parallel_microbatches", collector.get("given.microbatches"), "parts of a batch"
        )
    if (whole(collector.get("parallel.pipeline")) or 1) == 1:
        collector.values.pop("parallel.pipeline_schedule", None)


def _finish_precision(collector: Collector, source: str) -> None:
    weights = collector.values.get("given.weights")
    if weights is not None:
        collector.values["precision.weights"] = weights
    collector.default("precision.weights", "fp32", f"{source} of training.dtype")
    param = collector.values.get("given.param")
    if collector.get("given.fp8"):
        collector.put("precision.compute", "fp8", "float8", "linear layers")
    elif param is not None:
        collector.values["precision.compute"] = param
    collector.default("precision.compute", "bf16", f"{source} of mixed_precision_param")
    # Without FSDP it is torch.autocast instead (torchtitan/utils: maybe_enable_amp).
    collector.put("given.autocast_unless_sharded", True, "kind", "torchtitan")


def _finish_checkpointing(collector: Collector, source: str) -> None:
    mode, option = collector.get("given.checkpoint_mode"), collector.get("given.selective")
    key = "activation_checkpoint"
    collector.default("checkpointing.reentrant", False, "torchtitan's checkpoint_wrapper is non-reentrant")
    if mode is None and option is None:
        collector.default(
            "checkpointing.mode", "every_n", f"{source} of activation_checkpoint.mode (selective)"
        )
        collector.default("checkpointing.every", 2, f"{source} of selective_ac_option")
        return
    mode = mode or "selective"
    if mode != "selective":
        collector.put("checkpointing.mode", mode, f"{key}.mode", mode)
    elif option == "op":
        collector.put("checkpointing.mode", "selective_op", f"{key}.selective_ac_option", option)
    else:
        every = whole(option if option is not None else 2)
        if every is None or every < 1:
            collector.refuse(f"{key}.selective_ac_option", option)
            return
        collector.put(
            "checkpointing.mode", "every_n" if every > 1 else "full", f"{key}.selective_ac_option", option
        )
        collector.put("checkpointing.every", every, f"{key}.selective_ac_option", option)


def _finish_loss(collector: Collector, *, new: bool, source: str) -> None:
    parts = collector.get("given.compiled")
    compiled = bool(collector.get("given.compile"))
    names = str(parts).split(",") if parts is not None else ["model", "loss"] if new else ["model"]
    if "given.compile" in collector.values:
        collector.put("compile", compiled and "model" in names, "compile", compiled)
    tensor = whole(collector.get("parallel.tensor")) or 1
    if tensor > 1 and not collector.get("given.no_loss_parallel"):
        collector.put(
            "loss", "loss_parallel", "tensor_parallel_degree", "the loss is parallel unless it is disabled"
        )
    elif compiled and "loss" in names:
        collector.default("loss", "triton_ce", f"{source}: the loss is compiled with the model")
    else:
        collector.default("loss", "eager_fp32", f"{source}: cross entropy of logits cast to fp32")
