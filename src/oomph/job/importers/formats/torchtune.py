"""torchtune's YAML (recipes/configs).

Source of keys and defaults: torchtune/recipes/*.py and recipes/configs, 0.2 to 0.6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.formats.hf_keys import put_optimizer
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import dtype, flag, off, real, refused, table, to_flag, to_whole, whole, words

_ATTENTION_MODULES = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "output_proj": "o_proj"}
#: Builders' names without lora_ and qlora_, as patterns -> names on the hub.
_HUB = (
    (r"llama2_(7|13|70)b", "meta-llama/Llama-2-{0}b-hf"),
    (r"llama3_(8|70)b", "meta-llama/Meta-Llama-3-{0}B"),
    (r"llama3_1_(8|70|405)b", "meta-llama/Llama-3.1-{0}B"),
    (r"llama3_2_(1|3)b", "meta-llama/Llama-3.2-{0}B"),
    (r"llama3_3_70b", "meta-llama/Llama-3.3-70B-Instruct"),
    (r"code_llama2_(7|13|70)b", "codellama/CodeLlama-{0}b-hf"),
    (r"mistral_7b", "mistralai/Mistral-7B-v0.1"),
    (r"gemma_(2|7)b", "google/gemma-{0}b"),
    (r"gemma2_(2|9|27)b", "google/gemma-2-{0}b"),
    (r"qwen2_(0_5|1_5|7)b", "Qwen/Qwen2-{0}B"),
    (r"qwen2_5_(0_5|1_5|3|7|14|32|72)b(?:_instruct|_base)?", "Qwen/Qwen2.5-{0}B"),
    (r"qwen3_(0_6|1_7|4|8|14|32)b(?:_instruct|_base)?", "Qwen/Qwen3-{0}B"),
    (r"phi3_mini", "microsoft/Phi-3-mini-4k-instruct"),
    (r"phi4_14b", "microsoft/phi-4"),
)
_OPTIMIZERS: dict[str, tuple[str, str, str | None, str]] = {
    "pagedadamw8bit": ("adamw", "bnb_paged", "int8", "paged"),
    "pagedadamw32bit": ("adamw", "bnb_paged", "fp32", "paged"),
    "pagedadamw": ("adamw", "bnb_paged", "fp32", "paged"),
    "adamw8bit": ("adamw", "bnb", "int8", "none"),
    "adamw4bit": ("adamw", "torchao", "int4", "none"),
    "lion8bit": ("lion", "bnb", "int8", "none"),
    "adamw": ("adamw", "foreach", None, "none"),
    "adam": ("adam", "foreach", None, "none"),
    "sgd": ("sgd", "foreach", None, "none"),
}
_LOSSES = {
    "cewithchunkedoutputloss": "chunked_ce",
    # Output layer and cross entropy by chunks of tokens; the chunks' logits are kept for backward.
    "linearcrossentropyloss": "chunked_ce",
    "crossentropyloss": "eager_fp32",
}


def _component(value: object) -> str:
    name = table(value).get("_component_")
    return name if isinstance(name, str) else ""


def _model(collector: Collector, key: str, value: object) -> None:
    builder = _component(value).rsplit(".", 1)[-1].lower()
    plain = re.sub(r"^q?lora_", "", builder)
    hub = next(
        (
            name.format(*(g.replace("_", ".") for g in m.groups()))
            for p, name in _HUB
            if (m := re.fullmatch(p, plain))
        ),
        "",
    )
    collector.put("model.name", hub or plain, f"{key}._component_", builder)
    settings = {k: v for k, v in table(value).items() if k != "_component_"}
    if not builder.startswith(("lora_", "qlora_")):
        collector.read(settings, {}, harmless("torchtune.model"), parent=f"{key}.")
        return
    collector.put("given.lora", True, f"{key}._component_", builder)
    if builder.startswith("qlora_") or flag(settings.get("quantize_base")):
        # torchao's NF4Tensor: blocks of 64, whose scales are quantised in blocks of 256.
        collector.put("method.quantization.kind", "nf4", f"{key}._component_", builder)
        collector.put("method.quantization.double", True, f"{key}._component_", builder)
    _lora(collector, key, settings)


def _lora(collector: Collector, key: str, settings: Mapping[str, object]) -> None:
    names = words(settings.get("lora_attn_modules"))
    targets = [_ATTENTION_MODULES.get(name, name) for name in names or ()]
    if flag(settings.get("apply_lora_to_mlp")):
        targets += ["gate_proj", "up_proj", "down_proj"]
    if flag(settings.get("apply_lora_to_output")):
        targets.append("lm_head")
    if targets:
        collector.put("method.lora.targets", tuple(targets), f"{key}.lora_attn_modules", targets)
    rank, share = whole(settings.get("lora_rank")), real(settings.get("lora_dropout"))
    if rank is not None and rank > 0:
        collector.put("method.lora.rank", rank, f"{key}.lora_rank", rank)
    else:
        collector.default("method.lora.rank", 8, "torchtune's default of lora_rank")
    collector.put(
        "method.lora.dropout",
        share if share is not None and 0 <= share <= 1 else 0.0,
        f"{key}.lora_dropout",
        share,
    )
    if flag(settings.get("use_dora")):
        collector.put("method.lora.dora", True, f"{key}.use_dora", True)
    used = {
        "lora_attn_modules",
        "apply_lora_to_mlp",
        "apply_lora_to_output",
        "lora_rank",
        "lora_dropout",
        "use_dora",
        "quantize_base",
    }
    collector.read(
        {k: v for k, v in settings.items() if k not in used},
        {},
        harmless("torchtune.model"),
        parent=f"{key}.",
    )


def _optimizer(collector: Collector, key: str, value: object) -> None:
    name = _component(value).rsplit(".", 1)[-1].lower()
    found = _OPTIMIZERS.get(name)
    if found is None:
        collector.refuse(key, _component(value) or value)
        return
    if "torchao" in _component(value) and found[1] == "bnb":
        found = (found[0], "torchao", found[2], "none")
    if found[1] == "foreach" and flag(table(value).get("fused")):
        found = (found[0], "fused", found[2], found[3])
    if found[1] == "foreach" and flag(table(value).get("foreach")) is False:
        found = (found[0], "for_loop", found[2], found[3])
    put_optimizer(collector, found, f"{key}._component_", _component(value))
    if found[0] == "sgd" and real(table(value).get("momentum")):
        collector.put(
            "optimizer.momentum",
            real(table(value).get("momentum")),
            f"{key}.momentum",
            table(value).get("momentum"),
        )


def _loss(collector: Collector, key: str, value: object) -> None:
    name = _component(value).rsplit(".", 1)[-1].lower()
    if name in _LOSSES:
        collector.put("loss", _LOSSES[name], f"{key}._component_", name)
    else:
        collector.refuse(key, _component(value) or value)


def _tokenizer(collector: Collector, key: str, value: object) -> None:
    to_whole("batch.sequence")(collector, f"{key}.max_seq_len", table(value).get("max_seq_len"))


def _dataset(collector: Collector, key: str, value: object) -> None:
    to_flag("batch.packed")(collector, f"{key}.packed", table(value).get("packed"))
    if not collector.get("batch.sequence"):
        to_whole("batch.sequence")(collector, f"{key}.max_seq_len", table(value).get("max_seq_len"))


def _dtype(collector: Collector, key: str, value: object) -> None:
    found = dtype(value)
    if found is None:
        collector.refuse(key, value)
        return
    for path in ("precision.weights", "precision.compute"):
        collector.put(path, found, key, value)


def _sharded_apart(collector: Collector, key: str, value: object) -> None:
    names = words(value) or ()
    if any("embed" in name for name in names) or "output" in names:
        collector.put("parallel.units", "blocks_and_embeddings", key, value)


def _sharding(collector: Collector, key: str, value: object) -> None:
    name = str(value).strip().upper() if not off(value) else ""
    if name in ("FULL_SHARD", "SHARD_GRAD_OP"):
        collector.put("given.reshard", name == "FULL_SHARD", key, value)
    elif name:
        collector.refuse(key, value)


def _compile(collector: Collector, key: str, value: object) -> None:
    parts = table(value)
    collector.put("compile", bool(flag(value) or flag(parts.get("model"))), key, value)


def _ac_mode(collector: Collector, key: str, value: object) -> None:
    if not off(value) and str(value).lower() not in ("full", "selective"):
        collector.refuse(key, value)
    elif not off(value):
        collector.put("given.ac_mode", str(value).lower(), key, value)


_KEYS: dict[str, Handler] = {
    "model": _model,
    "optimizer": _optimizer,
    "loss": _loss,
    "tokenizer": _tokenizer,
    "dataset": _dataset,
    "batch_size": to_whole("batch.micro"),
    "gradient_accumulation_steps": to_whole("batch.accumulation"),
    "dtype": _dtype,
    "compile": _compile,
    "enable_activation_checkpointing": to_flag("given.checkpoints"),
    "enable_activation_offloading": to_flag("activation_offload"),
    "ac_mode": _ac_mode,
    "ac_option": to_whole("given.ac_option"),
    "optimizer_in_bwd": to_flag("given.in_backward"),
    "custom_sharded_layers": _sharded_apart,
    "memory_efficient_fsdp_wrap": to_flag("given.apart"),
    "fsdp_cpu_offload": to_flag("parallel.offload_parameters"),
    "fsdp_reshard_after_forward": to_flag("given.reshard"),
    "fsdp_sharding_strategy": _sharding,
    "tensor_parallel_dim": to_whole("parallel.tensor"),
    "context_parallel_dim": to_whole("parallel.context"),
    "data_parallel_replicate_dim": to_whole("given.replicate"),
    "data_parallel_shard_dim": to_whole("given.shard", least=-1),
    "quantizer": refused("training for a later quantisation (QAT)"),
    "teacher_model": refused("distillation: a second model"),
    "enable_fp8_training": refused("fp8 in torchtune"),
    "reward_and_value_model": refused("PPO: further models"),
    "policy_model": refused("PPO: further models"),
    "run_val_every_n_steps": to_whole("given.evaluates"),
    "batch_size_val": to_whole("given.eval_batch"),
    "device": refused(),
}


def read(source: Source) -> Imported:
    """The YAML."""
    collector = Collector("torchtune", source.name)
    read_table(collector, source.table)
    return collector.done()


def read_table(collector: Collector, settings: Mapping[str, object]) -> None:
    """Reads the keys of a recipe's configuration."""
    collector.put("framework.name", "torchtune", "kind", "torchtune")
    plain = {k: v for k, v in settings.items() if not (isinstance(v, str) and v.startswith("${"))}
    if str(plain.get("device", "cuda")).lower().startswith("cuda"):
        plain.pop("device", None)
    collector.read(plain, _KEYS, harmless("torchtune"))
    _finish_said(collector)
    weights = collector.get("precision.weights")
    if weights is None:
        collector.default("precision.weights", "bf16", "torchtune's recipes: dtype")
        collector.default("precision.compute", "bf16", "torchtune's recipes: dtype")
        weights = "bf16"
    if collector.get("given.lora"):
        collector.put("method.lora.dtype", weights, "dtype", weights)
    collector.default("checkpointing.mode", "none", "torchtune's default of enable_activation_checkpointing")
    collector.default("checkpointing.reentrant", False, "torchtune's checkpoint_wrapper is non-reentrant")
    packed = bool(collector.get("batch.packed"))
    # attention_utils.py: a packed dataset has a mask of its own, which flex_attention takes; else SDPA.
    collector.default(
        "attention", "flex" if packed else "sdpa", "torchtune: flex_attention where the dataset is packed"
    )
    if collector.get("batch.sequence") is None:
        collector.note(
            "tokenizer.max_seq_len is not set: how long samples are is not said, and 2048 tokens are planned"
        )
    strategy = "fsdp2_no_reshard" if collector.get("given.reshard") is False else "fsdp2_full"
    if (whole(collector.get("given.replicate")) or 1) > 1:
        strategy = "fsdp2_hybrid_shard"
    collector.default("given.many", strategy, "torchtune's distributed recipes")


def read_overrides(collector: Collector, settings: Mapping[str, object]) -> None:
    """`key=value` of a command line: what is said there, and no defaults."""
    collector.read(settings, _KEYS, harmless("torchtune"))
    _finish_said(collector)


def _finish_said(collector: Collector) -> None:
    """What follows from keys that are written."""
    if "given.checkpoints" in collector.values:
        on = bool(collector.get("given.checkpoints"))
        collector.put("checkpointing.mode", "full" if on else "none", "enable_activation_checkpointing", on)
    if collector.get("given.ac_mode") == "selective":
        every = whole(collector.get("given.ac_option")) or 1
        collector.put("checkpointing.mode", "every_n" if every > 1 else "full", "ac_mode", "selective")
        collector.put("checkpointing.every", every, "ac_option", every)
    if collector.get("given.in_backward"):
        collector.put("optimizer.impl", "in_backward", "optimizer_in_bwd", True)
    if collector.get("parallel.offload_parameters"):
        collector.put("optimizer.offload", "cpu", "fsdp_cpu_offload", True)
    if collector.get("given.apart"):
        collector.put("parallel.units", "blocks_and_embeddings", "memory_efficient_fsdp_wrap", True)
    if collector.get("given.evaluates"):
        batch = whole(collector.get("given.eval_batch")) or whole(collector.get("batch.micro")) or 1
        collector.put("evaluation.batch", batch, "batch_size_val", batch)
