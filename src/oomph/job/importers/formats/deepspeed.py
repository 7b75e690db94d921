"""DeepSpeed's configuration (ds_config.json).

Source of keys and defaults: deepspeed/runtime/config.py, deepspeed/runtime/zero/config.py, and for "auto"
transformers/integrations/deepspeed.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.hf_keys import put_optimizer
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import dtype, flag, noted, off, refused, table, to_flag, to_whole, whole

SOURCE = "DeepSpeed's default"

#: type -> as hf_keys.OPTIMIZERS. Adam is AdamW unless adam_w_mode is off; both are DeepSpeed's fused kernel, whose
#: moments have the dtype of the fp32 partitions. On the host it is DeepSpeedCPUAdam.
_OPTIMIZERS: dict[str, tuple[str, str, str | None, str]] = {
    "adam": ("adamw", "fused", None, "none"),
    "adamw": ("adamw", "fused", None, "none"),
    "lion": ("lion", "fused", None, "none"),
    "sgd": ("sgd", "foreach", None, "none"),
    "muon": ("muon", "for_loop", None, "none"),
}
_MODES = {"fp16": "fp16", "bf16": "bf16", "bfloat16": "bf16"}


def auto(handler: Handler) -> Handler:
    """A key that may be "auto": transformers then fills in its own value."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if isinstance(value, str) and value.strip().lower() == "auto":
            collector.put(f"given.auto.{key}", key, key, value)
        else:
            handler(collector, key, value)

    return handle


def _optimizer(collector: Collector, key: str, value: object) -> None:
    settings = table(value)
    name = str(settings.get("type") or "")
    if name.lower() == "auto" or not name:
        return
    found = _OPTIMIZERS.get(name.lower())
    if found is None:
        collector.refuse(f"{key}.type", name)
        return
    parameters = table(settings.get("params"))
    if flag(parameters.get("torch_adam")) and found[0] == "adamw":
        found = ("adamw", "foreach", None, "none")
    put_optimizer(collector, found, f"{key}.type", name)
    if found[0] == "sgd" and (parameters.get("momentum") or 0) not in (0, "auto"):
        collector.put("optimizer.momentum", 0.9, f"{key}.params.momentum", parameters.get("momentum"))


def _half(name: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        enabled = table(value).get("enabled", False)
        if isinstance(enabled, str) and enabled.lower() == "auto":
            collector.put(f"given.auto.{key}.enabled", key, f"{key}.enabled", enabled)
        elif flag(enabled):
            collector.put("given.mixed", name, f"{key}.enabled", enabled)
        if flag(table(value).get("fp16_master_weights_and_gradients")) or flag(
            table(value).get("bf16_master_weights_and_grads")
        ):
            collector.refuse(f"{key}.*_master_weights_and_grad(ient)s", True)

    return handle


def _enabled(why: str = "") -> Handler:
    """A part that has a switch of its own."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if isinstance(value, Mapping) and not any(
            flag(v) for k, v in value.items() if "enabled" in k or k == "deepcompile"
        ):
            return
        if not off(value):
            collector.refuse(key, "enabled", why)

    return handle


def _offload(part: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        device = (
            str(table(value).get("device") or "none").lower()
            if not isinstance(value, bool)
            else ("cpu" if value else "none")
        )
        if device == "none":
            return
        if device not in ("cpu", "nvme"):
            collector.refuse(f"{key}.device", device)
        elif part == "optimizer":
            collector.put("optimizer.offload", device, f"{key}.device", device)
            ratio = table(value).get("ratio", 1)
            if ratio not in (1, 1.0, "1", "1.0"):
                collector.refuse(f"{key}.ratio", ratio, "a part of the optimizer states")
        else:
            collector.put("parallel.offload_parameters", True, f"{key}.device", device)
            if device == "nvme":
                collector.note(
                    f"{key}: parameters on NVMe are planned as on the host; host memory is less than planned"
                )

    return handle


def _tensor(collector: Collector, key: str, value: object) -> None:
    size = whole(table(value).get("autotp_size"))
    if size is not None and size > 1:
        collector.put("parallel.tensor", size, f"{key}.autotp_size", size)


def _grads(collector: Collector, key: str, value: object) -> None:
    found = dtype(table(value).get("grad_accum_dtype"))
    if found is not None:
        collector.put("precision.grads", found, f"{key}.grad_accum_dtype", found)


def _reduced(collector: Collector, key: str, value: object) -> None:
    found = dtype(value)
    if found is not None:
        collector.put("precision.reduce", found, key, value)


def _more_than_one(why: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        if (whole(value) or 0) > 1:
            collector.refuse(key, value, why)

    return handle


def _checkpointing(collector: Collector, key: str, value: object) -> None:
    if any(flag(v) for v in table(value).values()):
        collector.note(
            f"{key}: it acts in models that call deepspeed.checkpointing (Megatron-DeepSpeed), not in transformers' "
            "models; it is left out"
        )


def _unless(usual: int, text: str) -> Handler:
    """A note where a number is not the usual one."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if whole(value) not in (usual, None):
            collector.note(f"{key} = {value}: {text}")

    return handle


def _linear(collector: Collector, key: str, value: object) -> None:
    if flag(value) is False:
        collector.refuse(key, value, "linear layers of PyTorch's own, which keep gathered weights")


_ZERO: dict[str, Handler] = {
    "sub_group_size": auto(_unless(10**9, "the step is planned over all elements at once, which needs more")),
    "stage3_max_reuse_distance": auto(_unless(10**9, "planned is DeepSpeed's default, 1e9")),
    "max_reuse_distance": auto(_unless(10**9, "planned is DeepSpeed's default, 1e9")),
    "memory_efficient_linear": _linear,
    "stage": auto(to_whole("given.zero.stage", least=0)),
    "reduce_bucket_size": auto(to_whole("parallel.zero_reduce_bucket")),
    "allgather_bucket_size": auto(to_whole("parallel.zero_allgather_bucket")),
    "stage3_prefetch_bucket_size": auto(to_whole("parallel.zero_prefetch_bucket", least=0)),
    "prefetch_bucket_size": auto(to_whole("parallel.zero_prefetch_bucket", least=0)),
    "stage3_max_live_parameters": auto(to_whole("parallel.zero_max_live_parameters", least=0)),
    "max_live_parameters": auto(to_whole("parallel.zero_max_live_parameters", least=0)),
    "stage3_param_persistence_threshold": auto(to_whole("parallel.zero_persistence_threshold", least=0)),
    "param_persistence_threshold": auto(to_whole("parallel.zero_persistence_threshold", least=0)),
    "contiguous_gradients": auto(to_flag("parallel.zero_contiguous_gradients")),
    "overlap_comm": auto(to_flag("parallel.zero_overlap_comm")),
    "offload_optimizer": _offload("optimizer"),
    "offload_param": _offload("parameters"),
    "cpu_offload": _offload("optimizer"),
    "cpu_offload_params": _offload("parameters"),
    "cpu_offload_param": _offload("parameters"),
    "zero_hpz_partition_size": _more_than_one("ZeRO++: a second shard in every node"),
    "zero_quantized_weights": refused("ZeRO++"),
    "zero_quantized_nontrainable_weights": refused("ZeRO++"),
    "zero_quantized_gradients": refused("ZeRO++"),
    "zeropp_loco_param": refused("ZeRO++"),
    "mics_shard_size": _more_than_one("MiCS"),
    "mics_hierarchical_params_gather": refused("MiCS"),
    "legacy_stage1": refused(),
    "stage3_gather_16bit_weights_on_model_save": noted(
        "the whole model is gathered while saving; not planned"
    ),
    "gather_16bit_weights_on_model_save": noted("the whole model is gathered while saving; not planned"),
    "stage3_gather_fp16_weights_on_model_save": noted(
        "the whole model is gathered while saving; not planned"
    ),
}
_ZERO_HARMLESS = harmless("deepspeed.zero")


def _zero(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, bool):
        collector.put("given.zero.stage", 1 if value else 0, key, value)
        return
    collector.read(table(value), _ZERO, _ZERO_HARMLESS, parent=f"{key}.")


_KEYS: dict[str, Handler] = {
    "train_batch_size": auto(to_whole("given.global_batch")),
    "train_micro_batch_size_per_gpu": auto(to_whole("batch.micro")),
    "gradient_accumulation_steps": auto(to_whole("batch.accumulation")),
    "zero_optimization": _zero,
    "optimizer": _optimizer,
    "fp16": _half("fp16"),
    "bf16": _half("bf16"),
    "bfloat16": _half("bf16"),
    "data_types": _grads,
    "communication_data_type": _reduced,
    "tensor_parallel": _tensor,
    "sequence_parallel_size": to_whole("parallel.context"),
    "activation_checkpointing": _checkpointing,
    "amp": _enabled("apex"),
    "torch_autocast": _enabled("autocast inside DeepSpeed"),
    "compile": _enabled("DeepCompile"),
    "elasticity": _enabled("the batch changes"),
    "autotuning": _enabled("the batch changes"),
    "compression_training": _enabled(),
    "curriculum_learning": _enabled("the length changes"),
    "data_efficiency": _enabled("the length changes"),
    "progressive_layer_drop": _enabled(),
    "hybrid_engine": _enabled("generation inside training"),
    "quantize_training": _enabled(),
    "fp8": _enabled(),
    "zero_quantized_initialization": refused(),
    "weight_quantization": refused(),
}  # fmt: skip
_HARMLESS = harmless("deepspeed")


def read(source: Source) -> Imported:
    """A configuration of its own."""
    collector = Collector("DeepSpeed", source.name)
    read_config(collector, source.table)
    return collector.done()


def read_config(collector: Collector, config: Mapping[str, object], parent: str = "") -> None:
    """Reads a configuration into what is being gathered."""
    collector.read(config, _KEYS, _HARMLESS, parent=parent)
    finish(collector)


def finish(collector: Collector) -> None:
    """The strategy, and DeepSpeed's defaults."""
    given = collector.values.get("given.zero.stage")
    stage = whole(given.value) if given is not None else 0
    text = given.quote if given is not None else "no zero_optimization"
    if stage in (1, 2, 3):
        collector.put("parallel.strategy", f"zero{stage}", "zero_optimization.stage", stage)
    else:
        collector.put("parallel.strategy", "ddp", "zero_optimization.stage", text)
        collector.refuse(
            "zero_optimization.stage", stage, "DeepSpeed's engine without ZeRO; it is planned as DDP"
        )
    if stage == 3:
        collector.default("parallel.zero_overlap_comm", True, f"{SOURCE} of overlap_comm in stage 3")
    if collector.get("parallel.offload_parameters") and stage != 3:
        collector.refuse("zero_optimization.offload_param", "on", "only stage 3 has parameters to move")
    if collector.get("parallel.offload_parameters") and collector.get("optimizer.offload") is None:
        collector.refuse("zero_optimization.offload_param", "without offload_optimizer")
    collector.put("given.engine", "deepspeed", "kind", "DeepSpeed")
