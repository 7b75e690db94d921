"""LitGPT's YAML (config_hub) and the flags of its commands.

Source of keys and defaults: litgpt/finetune/full.py, lora.py, pretrain.py, litgpt/args.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.hf_keys import put_optimizer
from oomph.job.importers.formats.lightning import put_precision
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import flag, off, real, refused, table, to_text, to_whole, whole

_QUANTIZATIONS: dict[str, tuple[str, bool]] = {
    "bnb.nf4": ("nf4", False),
    "bnb.nf4-dq": ("nf4", True),
    "bnb.fp4": ("fp4", False),
    "bnb.fp4-dq": ("fp4", True),
    "bnb.int8-training": ("int8", False),
}
#: lora_<part> -> PEFT's names of the modules.
_PARTS = {
    "lora_query": ("q_proj",),
    "lora_key": ("k_proj",),
    "lora_value": ("v_proj",),
    "lora_projection": ("o_proj",),
    "lora_mlp": ("gate_proj", "up_proj", "down_proj"),
    "lora_head": ("lm_head",),
}


def _quantize(collector: Collector, key: str, value: object) -> None:
    if off(value):
        return
    found = _QUANTIZATIONS.get(str(value).strip().lower())
    if found is None:
        collector.refuse(key, value)
        return
    collector.put("method.quantization.kind", found[0], key, value)
    collector.put("method.quantization.double", found[1], key, value)
    # Lightning's BitsandbytesPrecision replaces every nn.Linear, the head too.
    collector.put("method.quantization.head", True, key, value)


def _precision(collector: Collector, key: str, value: object) -> None:
    if not off(value):
        put_precision(collector, key, value)


def _devices(collector: Collector, key: str, value: object) -> None:
    number = whole(value)
    if number is not None and number >= 1:
        collector.put("given.gpus_per_node", number, key, value)
    elif value not in ("auto", -1, "-1", None):
        collector.refuse(key, value)


def _checkpoint(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, str) and value.strip():
        name = "/".join(value.strip().rstrip("/").split("/")[-2:])
        collector.put("model.name", name.removeprefix("checkpoints/"), key, value)


def _optimizer(collector: Collector, key: str, value: object) -> None:
    name = (table(value).get("class_path") or value) if not off(value) else ""
    plain = str(name).rsplit(".", 1)[-1].lower()
    settings = table(table(value).get("init_args"))
    names: dict[str, tuple[str, str, str | None, str]] = {
        "adamw": ("adamw", "foreach", None, "none"),
        "adam": ("adam", "foreach", None, "none"),
        "sgd": ("sgd", "foreach", None, "none"),
        "pagedadamw": ("adamw", "bnb_paged", "fp32", "paged"),
        "pagedadamw8bit": ("adamw", "bnb_paged", "int8", "paged"),
    }
    if plain not in names:
        if plain:
            collector.refuse(key, name)
        return
    found = names[plain]
    if flag(settings.get("fused")) and found[1] == "foreach":
        found = (found[0], "fused", found[2], found[3])
    put_optimizer(collector, found, key, name)
    if found[0] == "sgd" and real(settings.get("momentum")):
        collector.put(
            "optimizer.momentum", real(settings.get("momentum")), f"{key}.momentum", settings.get("momentum")
        )


def _train(collector: Collector, key: str, value: object) -> None:
    keys: dict[str, Handler] = {
        "micro_batch_size": to_whole("batch.micro"),
        "global_batch_size": to_whole("given.global_batch"),
        "max_seq_length": to_whole("batch.sequence"),
        "tie_embeddings": refused("the head and the embedding share a tensor"),
    }
    collector.read(table(value), keys, harmless("litgpt.train"), parent=f"{key}.")


_KEYS: dict[str, Handler] = {
    "checkpoint_dir": _checkpoint,
    "model_name": to_text("model.name"),
    "precision": _precision,
    "quantize": _quantize,
    "devices": _devices,
    "num_nodes": to_whole("given.nodes"),
    "train": _train,
    "optimizer": _optimizer,
    "lora_r": to_whole("method.lora.rank"),
    "adapter": refused(),
}


def read(source: Source) -> Imported:
    """The YAML."""
    collector = Collector("LitGPT", source.name)
    read_table(collector, source.table)
    return collector.done()


def read_table(collector: Collector, settings: Mapping[str, object], recipe: str = "") -> None:
    """Reads the keys; `recipe`: finetune_full, finetune_lora, pretrain, or "" (then by the keys)."""
    collector.put("framework.name", "litgpt", "kind", "litgpt")
    keys = {**_KEYS, **dict.fromkeys(_PARTS, _part), "lora_dropout": _dropout}
    collector.read(settings, keys, harmless("litgpt"))
    lora = "lora" in recipe or any(key.startswith("lora_") for key in settings) or "quantize" in settings
    pretrain = "pretrain" in recipe or ("model_name" in settings and "checkpoint_dir" not in settings)
    source = "LitGPT's default"
    collector.default("precision.weights", "bf16", f"{source} of precision where the GPU has bf16: bf16-true")
    collector.default("precision.compute", "bf16", f"{source} of precision")
    if lora:
        _finish_lora(collector, settings, source)
    # pretrain.py passes fused=True to the optimizer, the finetuning scripts do not.
    if collector.get("optimizer.name") is None:
        collector.default("optimizer.name", "adamw", f"{source} of optimizer")
        collector.default("optimizer.impl", "foreach", f"{source} of optimizer")
    if pretrain and collector.get("optimizer.impl") == "foreach":
        collector.put("optimizer.impl", "fused", "pretrain", "fused")
    if pretrain:
        collector.default("compile", True, "litgpt pretrain compiles the model")
        collector.default("batch.packed", True, "litgpt pretrain: sequences of full length")
    collector.default("loss", "chunked_ce", "litgpt.utils.chunked_cross_entropy")
    collector.default(
        "given.many", "fsdp1_hybrid_shard" if pretrain else "fsdp1_full_shard", "LitGPT with several devices"
    )
    collector.default(
        "given.checkpoints_if_many", not (lora or pretrain), "litgpt finetune_full with several devices"
    )
    if collector.get("batch.sequence") is None:
        collector.note(
            "train.max_seq_length is not set: samples are as long as the data has them, up to the model's limit"
        )
    collector.note(
        "LitGPT keeps the output layer apart from the embedding, also where the checkpoint ties them"
    )
    collector.put("given.untied", True, "kind", "LitGPT")


def _part(collector: Collector, key: str, value: object) -> None:
    collector.put(f"given.part.{key}", bool(flag(value)), key, value)


def _dropout(collector: Collector, key: str, value: object) -> None:
    share = real(value)
    if share is not None and 0 <= share <= 1:
        collector.put("method.lora.dropout", share, key, value)


def _finish_lora(collector: Collector, settings: Mapping[str, object], source: str) -> None:
    collector.put("given.lora", True, "lora_r", settings.get("lora_r"))
    on = {"lora_query": True, "lora_value": True}
    targets: list[str] = []
    for part, modules in _PARTS.items():
        said = collector.get(f"given.part.{part}")
        if said if said is not None else on.get(part, False):
            targets.extend(modules)
    collector.put("method.lora.targets", tuple(targets), "lora_*", targets)
    collector.default("method.lora.rank", 8, f"{source} of lora_r")
    collector.default("method.lora.dropout", 0.05, f"{source} of lora_dropout")
    weights = collector.get("precision.weights")
    collector.put("method.lora.dtype", weights, "precision", weights)
    if "method.quantization.kind" in collector.values:
        put_optimizer(
            collector,
            ("adamw", "bnb_paged", "fp32", "paged"),
            "quantize",
            "litgpt takes bnb.optim.PagedAdamW",
        )
