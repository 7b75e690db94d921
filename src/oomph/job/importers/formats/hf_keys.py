"""Keys that many files share: optimizers by transformers' names, attention, adapters, quantisation, as transformers,
PEFT, TRL and what is built on them write them."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler
from oomph.job.importers.values import dtype, flag, off, real, refused, table, to_whole, words

#: transformers' OptimizerNames (training_args.py) -> name, implementation, dtype of the moments, where they are.
#: adamw_torch calls torch.optim.AdamW without an implementation, which is foreach on GPUs; adamw_hf (until 4.x) and
#: Adafactor loop over parameters in Python. bitsandbytes keeps 32-bit moments in fp32 whatever the weights are.
OPTIMIZERS: dict[str, tuple[str, str, str | None, str]] = {
    "adamw_torch": ("adamw", "foreach", None, "none"),
    "adamw_torch_fused": ("adamw", "fused", None, "none"),
    "adamw_apex_fused": ("adamw", "fused", "fp32", "none"),
    "adamw_hf": ("adamw", "for_loop", None, "none"),
    "adamw_bnb_8bit": ("adamw", "bnb", "int8", "none"),
    "adamw_8bit": ("adamw", "bnb", "int8", "none"),
    "adamw_torch_8bit": ("adamw", "torchao", "int8", "none"),
    "adamw_torch_4bit": ("adamw", "torchao", "int4", "none"),
    "paged_adamw": ("adamw", "bnb_paged", "fp32", "paged"),
    "paged_adamw_32bit": ("adamw", "bnb_paged", "fp32", "paged"),
    "paged_adamw_8bit": ("adamw", "bnb_paged", "int8", "paged"),
    "lion_32bit": ("lion", "bnb", "fp32", "none"),
    "lion_8bit": ("lion", "bnb", "int8", "none"),
    "paged_lion_32bit": ("lion", "bnb_paged", "fp32", "paged"),
    "paged_lion_8bit": ("lion", "bnb_paged", "int8", "paged"),
    "adafactor": ("adafactor", "for_loop", None, "none"),
    "sgd": ("sgd", "foreach", None, "none"),
    "muon": ("muon", "for_loop", None, "none"),
}
_ATTENTIONS = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash_attention_2": "flash_attention_2",
    "flash_attention_3": "flash_attention_3",
    "flex_attention": "flex",
    "kernels-community/flash-attn": "flash_attention_2",
    "kernels-community/flash-attn2": "flash_attention_2",
    "kernels-community/flash-attn3": "flash_attention_3",
    "kernels-community/vllm-flash-attn3": "flash_attention_3",
}


def optimizer(names: Mapping[str, tuple[str, str, str | None, str]] = OPTIMIZERS) -> Handler:
    """A handler of an optimizer's name."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if off(value):
            return
        found = names.get(str(value)[:100].strip().lower().removeprefix("optimizernames."))
        if found is None:
            collector.refuse(key, value)
            return
        put_optimizer(collector, found, key, value)

    return handle


def put_optimizer(
    collector: Collector, found: tuple[str, str, str | None, str], key: str, value: object
) -> None:
    """All four parts of an optimizer. Not being offloaded is nothing that a name says: other keys may."""
    for part, part_value in zip(("name", "impl", "state"), found, strict=False):
        collector.put(f"optimizer.{part}", part_value, key, value)
    if found[3] != "none":
        collector.put("optimizer.offload", found[3], key, value)


def attention(collector: Collector, key: str, value: object) -> None:
    """attn_implementation by transformers' names; `org/kernel@revision` of the kernels hub too."""
    if off(value):
        return
    name = str(value)[:200].strip().lower().split("@")[0].split(":")[0]
    if name in _ATTENTIONS:
        collector.put("attention", _ATTENTIONS[name], key, value)
    else:
        collector.refuse(key, value)


def flash(collector: Collector, key: str, value: object) -> None:
    """use_flash_attention_2 and the like: FlashAttention 2 where it is on."""
    if flag(value):
        collector.put("attention", "flash_attention_2", key, value)
    elif not off(value) and flag(value) is None:
        collector.refuse(key, value)


def mixed_precision(collector: Collector, key: str, value: object) -> None:
    """mixed_precision: no, fp16, bf16 or fp8, as accelerate names them. YAML reads a bare `no` as false."""
    name = "no" if value is False else str(value).strip().lower()
    if name in ("bf16", "fp16", "fp8"):
        collector.put("given.mixed", name, key, value)
    elif name in ("no", "none", ""):
        collector.default("given.mixed", "no", f"{key} = no")
    else:
        collector.refuse(key, value)


def mixed(name: str) -> Handler:
    """A handler of `bf16: true` or `fp16: true`. False says nothing: it is everybody's default."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if flag(value):
            collector.put("given.mixed", name, key, value)
        elif not off(value) and flag(value) is None and value != "auto":
            collector.refuse(key, value, "neither true nor false")

    return handle


def model_name(collector: Collector, key: str, value: object) -> None:
    """A model's name on the hub, or its folder."""
    if isinstance(value, str) and value.strip():
        collector.put("model.name", value.strip()[:500], key, value)


def targets(collector: Collector, key: str, value: object) -> None:
    """target_modules of PEFT: names, a list of them, or all-linear. A regular expression is refused."""
    names = words(value)
    if names is None or not names:
        if not off(value):
            collector.refuse(key, value)
        return
    if isinstance(value, str) and any(c in value for c in "*()|\\^$?"):
        collector.refuse(key, value, "a regular expression; list the modules' names")
        return
    if names in (("all-linear",), ("all",), ("all_linear",)):
        names = ("all-linear",)
    # A set prints in any order; the order says nothing.
    collector.put(
        "method.lora.targets", tuple(dict.fromkeys(n.rsplit(".", 1)[-1] for n in names)), key, value
    )


def modules_to_save(collector: Collector, key: str, value: object) -> None:
    """Modules that are trained whole beside the adapters."""
    names = words(value)
    if names:
        collector.put("method.lora.modules_to_save", names, key, value)
    elif not off(value):
        collector.refuse(key, value)


def dropout(collector: Collector, key: str, value: object) -> None:
    """lora_dropout."""
    number = real(value)
    if number is not None and 0 <= number <= 1:
        collector.put("method.lora.dropout", number, key, value)
    elif not off(value):
        collector.refuse(key, value, "not a share from 0 to 1")


def dora(collector: Collector, key: str, value: object) -> None:
    """use_dora."""
    if flag(value):
        collector.put("method.lora.dora", True, key, value)


def reentrant(collector: Collector, key: str, value: object) -> None:
    """gradient_checkpointing_kwargs."""
    answer = flag(table(value).get("use_reentrant"))
    if answer is not None:
        collector.put("checkpointing.reentrant", answer, key, value)
    if isinstance(value, str) and value.strip().startswith("{"):
        answer = "true" in value.lower().partition("use_reentrant")[2][:20]
        collector.put("checkpointing.reentrant", answer, key, value)


def checkpointing(collector: Collector, key: str, value: object) -> None:
    """gradient_checkpointing: every block, or none."""
    answer = flag(value)
    if answer is not None:
        collector.put("checkpointing.mode", "full" if answer else "none", key, value)
    elif not off(value):
        collector.refuse(key, value)


def compiled(collector: Collector, key: str, value: object) -> None:
    """torch_compile, or the backend of torchdynamo."""
    if flag(value) or (isinstance(value, str) and value.lower() in ("inductor", "auto")):
        collector.put("compile", True, key, value)
    elif not off(value) and flag(value) is None and str(value).lower() != "no":
        collector.refuse(key, value, "a backend whose memory is not known")


def liger(collector: Collector, key: str, value: object) -> None:
    """use_liger_kernel: the loss without logits, unless liger_kernel_config says otherwise."""
    if flag(value):
        collector.default("loss", "fused_linear_ce", "use_liger_kernel: liger's default for causal models")
        collector.note(
            f"{key}: liger's kernels for norms, rotary embedding and the gated MLP save less than what is planned"
        )


def liger_config(collector: Collector, key: str, value: object) -> None:
    """liger_kernel_config."""
    config = table(value)
    if flag(config.get("fused_linear_cross_entropy")) is False:
        loss = "triton_ce" if flag(config.get("cross_entropy")) else "default"
        collector.put("loss", loss, key, value)


def load_in_4bit(collector: Collector, key: str, value: object) -> None:
    """bitsandbytes' 4-bit weights; fp4 is its default type (BitsAndBytesConfig)."""
    if flag(value):
        source = f"{key}: BitsAndBytesConfig's default of bnb_4bit_quant_type"
        collector.default("method.quantization.kind", "fp4", source)


def load_in_8bit(collector: Collector, key: str, value: object) -> None:
    """LLM.int8()."""
    if flag(value):
        collector.put("method.quantization.kind", "int8", key, value)


def quant_type(collector: Collector, key: str, value: object) -> None:
    """bnb_4bit_quant_type; it counts only where load_in_4bit is on, which the reader of the file sees to."""
    name = str(value).strip().lower() if isinstance(value, str) else ""
    if name in ("nf4", "fp4"):
        collector.put("method.quantization.kind", name, key, value)
    elif not off(value):
        collector.refuse(key, value)


def double_quant(collector: Collector, key: str, value: object) -> None:
    """bnb_4bit_use_double_quant."""
    if flag(value):
        collector.put("method.quantization.double", True, key, value)


def skipped(collector: Collector, key: str, value: object) -> None:
    """llm_int8_skip_modules: the output layer is skipped anyway."""
    names = words(value)
    if not off(value) and (names is None or set(names) - {"lm_head"}):
        collector.refuse(key, value, "modules that stay as they are")


def loaded_as(collector: Collector, key: str, value: object) -> None:
    """dtype / torch_dtype of from_pretrained. "auto": as the model's own config.json says."""
    found = dtype(value)
    if found is not None:
        collector.put("given.weights", found, key, value)
    elif value == "auto":
        collector.put("given.weights", "auto", key, value)
    elif not off(value):
        collector.refuse(key, value, "not a dtype that is known here")


def bucket_mb(collector: Collector, key: str, value: object) -> None:
    """ddp_bucket_cap_mb: mebibytes (torch.nn.parallel.DistributedDataParallel)."""
    number = real(value)
    if number is not None and number > 0:
        collector.put("parallel.ddp_bucket_bytes", int(number * 1024 * 1024), key, value)
    elif not off(value):
        collector.refuse(key, value, "not a number of MiB")


#: Adapters as TRL's ModelConfig and many scripts name them.
LORA: dict[str, Handler] = {
    "lora_r": to_whole("method.lora.rank"),
    "lora_rank": to_whole("method.lora.rank"),
    "lora_dropout": dropout,
    "lora_target_modules": targets,
    "lora_modules_to_save": modules_to_save,
    "use_dora": dora,
}
#: bitsandbytes as BitsAndBytesConfig names it.
BITSANDBYTES: dict[str, Handler] = {
    "load_in_4bit": load_in_4bit,
    "load_in_8bit": load_in_8bit,
    "bnb_4bit_quant_type": quant_type,
    "bnb_4bit_use_double_quant": double_quant,
    "use_bnb_nested_quant": double_quant,
    "llm_int8_skip_modules": skipped,
    "llm_int8_enable_fp32_cpu_offload": refused("weights on the host"),
}
BITSANDBYTES_HARMLESS = harmless("bitsandbytes")


def finish_quantization(collector: Collector, table_of: Mapping[str, object]) -> None:
    """Drops what was said of 4-bit types where 4-bit loading is off: files print it all the same."""
    on = flag(table_of.get("load_in_4bit")) or flag(table_of.get("load_in_8bit"))
    if not on:
        for path in [p for p in collector.values if p.startswith("method.quantization.")]:
            del collector.values[path]
