"""Accelerate's YAML, as `accelerate config` writes it.

Source of keys and defaults: accelerate/commands/config/config_args.py, accelerate/utils/dataclasses.py.
"""

from __future__ import annotations

from oomph.job.importers.formats import deepspeed as ds
from oomph.job.importers.formats import hf_fsdp
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.hf_keys import mixed_precision
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import flag, noted, off, refused, table, to_flag, to_whole, whole

_DISTRIBUTED = {
    "no": "none", "false": "none", "multi_gpu": "ddp", "fsdp": "fsdp", "deepspeed": "deepspeed", "tp": "tp",
}  # fmt: skip


def _distributed(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower().removeprefix("distributedtype.")
    if name in _DISTRIBUTED:
        collector.put("given.distributed", _DISTRIBUTED[name], key, value)
    else:
        collector.refuse(key, value)


def _offload_device(path: str) -> Handler:
    def handle(collector: Collector, key: str, value: object) -> None:
        device = str(value).strip().lower()
        if off(value) or device == "none":
            return
        if device not in ("cpu", "nvme"):
            collector.refuse(key, value)
        elif path == "optimizer":
            collector.put("optimizer.offload", device, key, value)
        else:
            collector.put("parallel.offload_parameters", True, key, value)

    return handle


def _ds_file(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, str) and value.strip():
        collector.put("given.needs.deepspeed", value.strip()[:300], key, value)


_DEEPSPEED: dict[str, Handler] = {
    "deepspeed_config_file": _ds_file,
    "zero_stage": to_whole("given.zero.stage", least=0),
    "gradient_accumulation_steps": ds.auto(to_whole("batch.accumulation")),
    "offload_optimizer_device": _offload_device("optimizer"),
    "offload_param_device": _offload_device("parameters"),
    "zero3_init_flag": noted(
        "with it every rank loads its shard only; the load phase is planned as without it"
    ),
    "deepspeed_moe_layer_cls_names": refused("experts of DeepSpeed"),
}
_DEEPSPEED_HARMLESS = harmless("accelerate.deepspeed")


def _deepspeed(collector: Collector, key: str, value: object) -> None:
    settings = table(value)
    if not settings:
        return
    collector.read(settings, _DEEPSPEED, _DEEPSPEED_HARMLESS, parent=f"{key}.")
    if collector.get("given.needs.deepspeed") is None:
        # Accelerate's own default is stage 2 (accelerate launch, zero_stage).
        collector.default("given.zero.stage", 2, "accelerate's default of zero_stage")
        ds.finish(collector)


def _parallelism(collector: Collector, key: str, value: object) -> None:
    settings = {k.removeprefix("parallelism_config_"): v for k, v in table(value).items()}
    sizes = {
        name: whole(settings.get(f"{name}_size")) or 1
        for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp")
    }
    if sizes["tp"] > 1:
        collector.put("parallel.tensor", sizes["tp"], f"{key}.tp_size", sizes["tp"])
    if sizes["cp"] > 1 and sizes["sp"] > 1:
        collector.refuse(f"{key}.sp_size", sizes["sp"], "beside cp_size")
    context = max(sizes["cp"], sizes["sp"])
    if context > 1:
        collector.put("parallel.context", context, f"{key}.cp_size", context)
    if sizes["dp_replicate"] > 1:
        collector.put(
            "given.replicate", sizes["dp_replicate"], f"{key}.dp_replicate_size", sizes["dp_replicate"]
        )
        if sizes["dp_shard"] > 1:
            collector.put("parallel.shard_size", sizes["dp_shard"], f"{key}.dp_shard_size", sizes["dp_shard"])
    known = {f"{name}_size" for name in sizes} | {"cp_comm_strategy", "cp_backend", "sp_backend", "sp_seq_length",
                                                  "sp_seq_length_is_variable", "sp_attn_implementation"}  # fmt: skip
    for name, held in settings.items():
        if name not in known and not off(held):
            collector.unknown.append(f"{key}.{name} = {held}"[:200])


def _dynamo(collector: Collector, key: str, value: object) -> None:
    backend = str(table(value).get("dynamo_backend") or "no").lower()
    if backend == "inductor":
        collector.put("compile", True, f"{key}.dynamo_backend", backend)
    elif backend != "no":
        collector.refuse(f"{key}.dynamo_backend", backend)


_KEYS: dict[str, Handler] = {
    "distributed_type": _distributed,
    "mixed_precision": mixed_precision,
    "num_processes": to_whole("hardware.gpus"),
    "num_machines": to_whole("given.nodes"),
    "gradient_accumulation_steps": to_whole("batch.accumulation"),
    "fsdp_config": hf_fsdp.read_fsdp_config,
    "deepspeed_config": _deepspeed,
    "parallelism_config": _parallelism,
    "dynamo_config": _dynamo,
    "fp8_config": refused("which operations run in fp8 is not said by a job"),
    "megatron_lm_config": refused("Megatron-LM through accelerate; give Megatron's own arguments"),
    "use_cpu": refused("training on the CPU"),
    "downcast_bf16": to_flag("given.ignored"),
}
_HARMLESS = harmless("accelerate")


def read(source: Source) -> Imported:
    """The YAML."""
    collector = Collector("Accelerate", source.name)
    if str(source.table.get("compute_environment")).upper().endswith("AMAZON_SAGEMAKER"):
        collector.refuse("compute_environment", source.table.get("compute_environment"))
    settings = dict(source.table)
    kind = str(settings.get("distributed_type")).lower().removeprefix("distributedtype.")
    # accelerate reads a part only where distributed_type asks for it.
    if kind != "fsdp":
        settings.pop("fsdp_config", None)
    if kind != "deepspeed":
        settings.pop("deepspeed_config", None)
    if flag(settings.get("downcast_bf16")) is False or str(settings.get("downcast_bf16")).lower() == "no":
        settings.pop("downcast_bf16")
    collector.read(settings, _KEYS, _HARMLESS)
    _finish(collector)
    return collector.done()


def _finish(collector: Collector) -> None:
    distributed = collector.get("given.distributed")
    if distributed == "fsdp":
        collector.put("given.fsdp.on", True, "distributed_type", "FSDP")
        # accelerate's own default is no units but the root (FSDP_AUTO_WRAP_POLICY).
        collector.default("parallel.units", "root", "accelerate's default of fsdp_auto_wrap_policy")
        hf_fsdp.finish_fsdp(collector, version=1)
        if collector.get("given.replicate"):
            collector.put(
                "parallel.strategy", "fsdp2_hybrid_shard", "parallelism_config.dp_replicate_size", "> 1"
            )
    elif distributed in ("ddp", "none"):
        collector.put("parallel.strategy", distributed, "distributed_type", distributed)
    elif distributed == "deepspeed" and collector.get("parallel.strategy") is None:
        if collector.get("given.needs.deepspeed") is None:
            collector.default("given.zero.stage", 2, "accelerate's default of zero_stage")
            ds.finish(collector)
    # downcast_bf16 is for TPUs.
    collector.values.pop("given.ignored", None)
    nodes, gpus = whole(collector.get("given.nodes")), whole(collector.get("hardware.gpus"))
    if nodes and gpus and nodes > 1 and gpus % nodes == 0:
        collector.put("hardware.per_node", gpus // nodes, "num_machines", nodes)
