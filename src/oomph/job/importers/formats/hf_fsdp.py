"""FSDP as transformers, accelerate and what is built on them configure it: `fsdp`, `fsdp_config` with or without the
prefix `fsdp_`.

Sources: transformers/training_args.py (`_process_fsdp_args`), accelerate/utils/dataclasses.py
(FullyShardedDataParallelPlugin), as of accelerate 1.x.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler, Value
from oomph.job.importers.values import flag, noted, off, refused, table, to_choice, to_flag, words

_SHARDING = {
    "full_shard": "full_shard", "1": "full_shard",
    "shard_grad_op": "shard_grad_op", "2": "shard_grad_op",
    "no_shard": "no_shard", "3": "no_shard",
    "hybrid_shard": "hybrid_shard", "4": "hybrid_shard",
    # FSDP2 says it with true and false.
    "true": "full_shard", "false": "shard_grad_op",
}  # fmt: skip
_PREFETCH = {
    "backward_pre": "pre", "1": "pre", "backward_post": "post", "2": "post", "no_prefetch": "none", "none": "none",
}  # fmt: skip
_WRAP = {"transformer_based_wrap": "blocks", "no_wrap": "root", "0": "blocks", "2": "root"}
_LOADING = (
    "it decides how the weights are loaded, which a job does not say: the load phase is planned as without it, "
    "and that of 4-bit weights as with it"
)

_KEYS: dict[str, Handler] = {
    "version": to_choice("given.fsdp.version", {"1": 1, "2": 2}),
    "sharding_strategy": to_choice("given.fsdp.sharding", _SHARDING),
    "reshard_after_forward": to_choice("given.fsdp.reshard", _SHARDING),
    "offload_params": to_flag("parallel.offload_parameters"),
    "cpu_offload": to_flag("parallel.offload_parameters"),
    "auto_wrap_policy": to_choice("parallel.units", _WRAP),
    "backward_prefetch": to_choice("parallel.backward_prefetch", _PREFETCH),
    "backward_prefetch_policy": to_choice("parallel.backward_prefetch", _PREFETCH),
    "forward_prefetch": to_flag("parallel.forward_prefetch"),
    "limit_all_gathers": to_flag("parallel.limit_all_gathers"),
    "use_orig_params": to_flag("parallel.use_orig_params"),
    "activation_checkpointing": to_flag("given.fsdp.checkpointing"),
    "activation_cpu_offload": to_flag("activation_offload"),
    "activation_checkpointing_offload": to_flag("activation_offload"),
    "cpu_ram_efficient_loading": noted(_LOADING),
    "xla": refused("XLA is no GPU code that is known here"),
    "xla_fsdp_v2": refused("XLA"),
    "xla_fsdp_grad_ckpt": refused("XLA"),
    "mixed_precision_policy": to_choice(
        "given.mixed",
        {"bf16": "bf16", "fp16": "fp16", "fp32": "no", "no": "no", "bfloat16": "bf16", "float16": "fp16"},
    ),
    "ignored_modules": refused("modules that FSDP leaves alone"),
}
_HARMLESS = harmless("fsdp")
#: What accelerate's plugin does where nothing is written.
_SOURCE = "accelerate's FullyShardedDataParallelPlugin: its default"


def read_fsdp_config(collector: Collector, key: str, value: object) -> None:
    """The handler of `fsdp_config`."""
    if isinstance(value, str) and value.strip():
        collector.put("given.needs.fsdp_config", value.strip()[:300], key, value)
        return
    plain: dict[str, object] = {}
    for name, held in table(value).items():
        plain[name.removeprefix("fsdp_")] = held
    policy = str(plain.get("auto_wrap_policy") or "").lower()
    if policy in ("size_based_wrap", "1"):
        collector.refuse(f"{key}.auto_wrap_policy", plain.pop("auto_wrap_policy"), "units by size")
    collector.read(plain, _KEYS, _HARMLESS, parent=f"{key}.")


def read_version(collector: Collector, key: str, value: object) -> None:
    """The handler of a `fsdp_version` beside fsdp_config."""
    _KEYS["version"](collector, key, value)


def read_fsdp(collector: Collector, key: str, value: object) -> None:
    """The handler of `fsdp`: true, or words such as `full_shard auto_wrap offload`. A list of printed enums too."""
    if flag(value) is True:
        collector.put("given.fsdp.on", True, key, value)
        return
    if off(value) or flag(value) is False:
        return
    names = words(value)
    if names is None:
        collector.refuse(key, value)
        return
    wrapped = False
    for name in (part.lower() for each in names for part in each.split()):
        if name in ("full_shard", "shard_grad_op", "no_shard", "hybrid_shard"):
            collector.put("given.fsdp.sharding", name, key, value)
        elif name == "offload":
            collector.put("parallel.offload_parameters", True, key, value)
        elif name == "auto_wrap":
            wrapped = True
        else:
            collector.refuse(key, name)
    collector.put("given.fsdp.on", True, key, value)
    collector.put("given.fsdp.auto_wrap", wrapped, key, value)


def finish_fsdp(collector: Collector, *, version: int | None, units: str | None = None) -> None:
    """Turns what was given into a strategy. `version`: of FSDP where nothing is written (None: not known); `units`:
    what is wrapped where nothing is written."""
    given = collector.values
    if "given.fsdp.on" not in given:
        return
    chosen = given.get("given.fsdp.version")
    number = chosen.value if chosen else version
    if number is None:
        number = 1
        collector.note(
            "FSDP 1 is assumed: where fsdp_config names no version, it is 1 in transformers until 5.8 and 2 from 5.10"
        )
    sharding = given.get("given.fsdp.reshard") or given.get("given.fsdp.sharding")
    name = str(sharding.value) if sharding else "full_shard"
    text = sharding.quote if sharding else "fsdp"
    collector.values["parallel.strategy"] = Value(strategy(collector, int(str(number)), name, text), text)
    if number == 1:
        collector.default("parallel.backward_prefetch", "none", _SOURCE)
        collector.default("parallel.use_orig_params", False, _SOURCE)
    collector.default("parallel.units", _units(given, units), "fsdp auto_wrap")
    if collector.get("parallel.offload_parameters"):
        collector.put("optimizer.offload", "cpu", "fsdp", "the step runs where the parameters are")
    if collector.get("given.fsdp.checkpointing"):
        collector.put("checkpointing.mode", "full", "fsdp activation_checkpointing", True)
        collector.put("checkpointing.reentrant", False, "fsdp activation_checkpointing", True)


def _units(given: Mapping[str, object], units: str | None) -> str:
    if units is not None:
        return units
    wrapped = given.get("given.fsdp.auto_wrap")
    return "root" if wrapped is not None and getattr(wrapped, "value", None) is False else "blocks"


def strategy(collector: Collector, version: int, sharding: str, text: str) -> str:
    """A job's strategy by the version of FSDP and the name of the sharding."""
    if version == 1:
        return f"fsdp1_{sharding}"
    if sharding in ("full_shard", "shard_grad_op"):
        return "fsdp2_full" if sharding == "full_shard" else "fsdp2_no_reshard"
    if sharding == "hybrid_shard":
        return "fsdp2_hybrid_shard"
    collector.refuse("fsdp", text, f"FSDP 2 has no {sharding}")
    return "fsdp2_full"
