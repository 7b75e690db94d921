"""Lightning: the arguments of a Trainer, printed or in the YAML of LightningCLI.

Source of keys and defaults: lightning/pytorch/trainer/trainer.py, lightning/pytorch/strategies, lightning/fabric.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.hf_keys import put_optimizer
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import flag, off, refused, table, to_flag, to_text, to_whole, whole

#: precision -> dtype of the weights, of matrix products, autocast.
_PRECISIONS: dict[str, tuple[str, str, bool]] = {
    "32-true": ("fp32", "fp32", False),
    "32": ("fp32", "fp32", False),
    "16-mixed": ("fp32", "fp16", True),
    "16": ("fp32", "fp16", True),
    "bf16-mixed": ("fp32", "bf16", True),
    "bf16": ("fp32", "bf16", True),
    "bf16-true": ("bf16", "bf16", False),
    "16-true": ("fp16", "fp16", False),
}
_STRATEGIES = {
    "ddp": "ddp",
    "ddp_find_unused_parameters_true": "ddp",
    "ddp_find_unused_parameters_false": "ddp",
    "ddp_spawn": "ddp",
    "ddp_notebook": "ddp",
    "ddp_fork": "ddp",
    "fsdp": "fsdp1_full_shard",
    "fsdp_cpu_offload": "fsdp1_full_shard",
    "deepspeed": "zero2",
    "deepspeed_stage_1": "zero1",
    "deepspeed_stage_1_offload": "zero1",
    "deepspeed_stage_2": "zero2",
    "deepspeed_stage_2_offload": "zero2",
    "deepspeed_stage_3": "zero3",
    "deepspeed_stage_3_offload": "zero3",
    "ddpstrategy": "ddp",
    "fsdpstrategy": "fsdp1_full_shard",
    "singledevicestrategy": "none",
}
_SHARDING = {
    "full_shard": "fsdp1_full_shard",
    "shard_grad_op": "fsdp1_shard_grad_op",
    "no_shard": "fsdp1_no_shard",
    "hybrid_shard": "fsdp1_hybrid_shard",
}


def put_precision(collector: Collector, key: str, value: object) -> None:
    """Lightning's precision, also of Fabric and LitGPT."""
    found = _PRECISIONS.get(str(value).strip().lower())
    if found is None:
        collector.refuse(key, value)
        return
    for part, answer in zip(("weights", "compute", "autocast"), found, strict=True):
        collector.put(f"precision.{part}", answer, key, value)


def _strategy(collector: Collector, key: str, value: object) -> None:
    if off(value) or value == "auto":
        return
    settings = table(table(value).get("init_args"))
    shown = str(table(value).get("class_path") or value)
    name = shown.rsplit(".", 1)[-1].strip().lower().split("(")[0].lstrip("<")
    chosen = _STRATEGIES.get(name, "")
    if name == "deepspeedstrategy":
        stage = whole(settings.get("stage", 2))
        chosen = f"zero{stage}" if stage in (1, 2, 3) else ""
    if not chosen:
        collector.refuse(key, shown)
        return
    collector.put("parallel.strategy", chosen, key, shown)
    _offload(collector, key, name, settings)
    if chosen.startswith("fsdp"):
        # Without a policy only the root is a unit (lightning/pytorch/strategies/fsdp.py).
        collector.default("parallel.units", "root", f"{key}: no auto_wrap_policy")
    collector.read(settings, _SETTINGS, harmless("lightning.strategy"), parent=f"{key}.")


def _sharding(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().lower()
    if name in _SHARDING:
        collector.put("parallel.strategy", _SHARDING[name], key, value)
    elif not off(value):
        collector.refuse(key, value)


def _wrapped(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        collector.put("parallel.units", "blocks", key, value)


def _checkpointed(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        collector.put("checkpointing.mode", "full", key, value)
        collector.put("checkpointing.reentrant", False, key, value)


def _config(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        collector.put("given.needs.deepspeed", str(value)[:200], key, value)


#: Arguments of the strategies' classes, beside those that decide the stage and what is on the host.
_SETTINGS: dict[str, Handler] = {
    "sharding_strategy": _sharding,
    "auto_wrap_policy": _wrapped,
    "activation_checkpointing_policy": _checkpointed,
    "activation_checkpointing": _checkpointed,
    "gradient_as_bucket_view": to_flag("parallel.gradient_as_bucket_view"),
    "limit_all_gathers": to_flag("parallel.limit_all_gathers"),
    "use_orig_params": to_flag("parallel.use_orig_params"),
    "forward_prefetch": to_flag("parallel.forward_prefetch"),
    "mixed_precision": refused("a MixedPrecision of its own"),
    "config": _config,
}


def _offload(collector: Collector, key: str, name: str, settings: Mapping[str, object]) -> None:
    everything = name == "fsdp_cpu_offload" or bool(flag(settings.get("cpu_offload")))
    if everything or name == "deepspeed_stage_3_offload" or flag(settings.get("offload_parameters")):
        collector.put("parallel.offload_parameters", True, key, name)
    if everything or name.endswith("_offload") or flag(settings.get("offload_optimizer")):
        collector.put("optimizer.offload", "cpu", key, name)


def _devices(collector: Collector, key: str, value: object) -> None:
    number = len(value) if isinstance(value, (list, tuple)) else whole(value)
    if isinstance(value, str) and "," in value:
        number = len([part for part in value.split(",") if part.strip()])
    if number is not None and number >= 1:
        collector.put("given.gpus_per_node", number, key, value)
    elif value not in ("auto", -1, "-1", None):
        collector.refuse(key, value)


def _accelerator(collector: Collector, key: str, value: object) -> None:
    if str(value).lower() not in ("auto", "gpu", "cuda", "none"):
        collector.refuse(key, value, "not a CUDA GPU")


_TRAINER: dict[str, Handler] = {
    "precision": put_precision,
    "strategy": _strategy,
    "devices": _devices,
    "gpus": _devices,
    "num_nodes": to_whole("given.nodes"),
    "accumulate_grad_batches": to_whole("batch.accumulation"),
    "accelerator": _accelerator,
    "plugins": refused("plugins of Lightning"),
    "reload_dataloaders_every_n_epochs": to_whole("given.ignored", least=0),
}


def read(source: Source) -> Imported:
    """A Trainer's arguments, or the YAML of LightningCLI."""
    collector = Collector("Lightning", source.name)
    collector.put("framework.name", "lightning", "kind", "Lightning")
    trainer = source.table.get("trainer")
    collector.read(
        trainer if isinstance(trainer, Mapping) else source.table,
        _TRAINER,
        harmless("lightning"),
        parent="trainer." if trainer else "",
    )
    if isinstance(trainer, Mapping):
        _rest_of_cli(collector, source.table)
    source_of_default = "Lightning's Trainer: its default"
    for part, value in (("weights", "fp32"), ("compute", "fp32")):
        collector.default(f"precision.{part}", value, f"{source_of_default} of precision (32-true)")
    collector.default("given.many", "ddp", "Lightning with several devices and strategy=auto")
    collector.default("batch.accumulation", 1, f"{source_of_default} of accumulate_grad_batches")
    collector.values.pop("given.ignored", None)
    if collector.get("optimizer.name") is None:
        collector.note(
            "the optimizer is in the LightningModule's code: AdamW of PyTorch (foreach) is planned"
        )
    strategy = str(collector.get("parallel.strategy") or "")
    weights = collector.get("precision.weights")
    if (
        strategy.startswith("zero")
        and collector.get("precision.compute") in ("bf16", "fp16")
        and weights == "fp32"
    ):
        # DeepSpeed's engine takes mixed precision itself: half-precision weights, fp32 partitions.
        half = collector.get("precision.compute")
        for part, value2 in (("weights", half), ("autocast", False), ("master", True)):
            collector.put(f"precision.{part}", value2, "precision", "through DeepSpeed")
        collector.default("optimizer.state", "fp32", "DeepSpeed: moments of the fp32 partitions")
    return collector.done()


def _rest_of_cli(collector: Collector, settings: Mapping[str, object]) -> None:
    for part in ("data", "model"):
        arguments = table(table(settings.get(part)).get("init_args")) or table(settings.get(part))
        for key, path in (
            ("batch_size", "batch.micro"),
            ("micro_batch_size", "batch.micro"),
            ("train_batch_size", "batch.micro"),
            ("max_seq_length", "batch.sequence"),
            ("max_length", "batch.sequence"),
            ("block_size", "batch.sequence"),
            ("seq_length", "batch.sequence"),
        ):
            if key in arguments:
                to_whole(path)(collector, f"{part}.{key}", arguments[key])
        for key in ("model_name_or_path", "model_name", "pretrained_model_name_or_path"):
            if key in arguments:
                to_text("model.name")(collector, f"{part}.{key}", arguments[key])
        if "gradient_checkpointing" in arguments and flag(arguments["gradient_checkpointing"]) is not None:
            to_flag("given.checkpoints")(
                collector, f"{part}.gradient_checkpointing", arguments["gradient_checkpointing"]
            )
    if collector.get("given.checkpoints"):
        collector.put("checkpointing.mode", "full", "model.gradient_checkpointing", True)
    name = str(table(settings.get("optimizer")).get("class_path") or "").rsplit(".", 1)[-1].lower()
    fused = flag(table(table(settings.get("optimizer")).get("init_args")).get("fused"))
    if name in ("adamw", "adam", "sgd"):
        put_optimizer(
            collector, (name, "fused" if fused else "foreach", None, "none"), "optimizer.class_path", name
        )
    elif name:
        collector.refuse("optimizer.class_path", name)
    collector.note("what the LightningModule and its data say in code is not read")
