"""The product that cases are selected from, and what of it may not be together."""

from __future__ import annotations

from typing import Any

from tests.predict.grid.cases import NOT_GROUPED, Case
from tests.predict.grid.pairs import Row, pairwise

FAMILIES = ("llama", "gpt2", "qwen2", "mistral", "opt", "gemma", "phi3", "gpt_neox", "qwen3", "phi")
_HEADS = {"grouped": 2, "equal": 8, "single": 1}
_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw foreach": {},
    "adamw fused": {"impl": "fused"},
    "adamw for-loop": {"impl": "for_loop"},
    "sgd": {"optimizer": "sgd"},
    "sgd momentum": {"optimizer": "sgd", "momentum": 0.9},
    "adafactor": {"optimizer": "adafactor"},
    "adamw in backward": {"impl": "in_backward"},
    "adamw 8-bit": {"impl": "bnb"},
    "adamw 8-bit paged": {"impl": "bnb_paged"},
}
_METHODS: dict[str, dict[str, Any]] = {
    "full": {},
    "lora": {"lora": ("some",)},
    "lora all dropout": {"lora": ("all-linear",), "dropout": 0.1},
    "qlora": {"lora": ("all-linear",), "quantized": "nf4", "double": True},
    "frozen layer": {"frozen": ("layer",)},
    "frozen start": {"frozen": ("embedding", "layer")},
}
_STRATEGIES: dict[str, dict[str, Any]] = {
    "one": {},
    "ddp": {"strategy": "ddp", "ranks": 2},
    "ddp view": {"strategy": "ddp", "ranks": 4, "view": True},
    "fsdp1": {"strategy": "fsdp1_full_shard", "ranks": 4},
    "fsdp1 sgo": {"strategy": "fsdp1_shard_grad_op", "ranks": 2},
    "fsdp2": {"strategy": "fsdp2_full", "ranks": 8},
    "fsdp2 no reshard": {"strategy": "fsdp2_no_reshard", "ranks": 2},
}
FACTORS: dict[str, tuple[Any, ...]] = {
    "family": FAMILIES,
    "heads": tuple(_HEADS),
    "tied": (False, True),
    "batch": (2, 1),
    "precision": ("bf16", "fp32", "bf16-autocast"),
    "attention": ("sdpa", "eager", "flash_attention_2"),
    "checkpointing": ("none", "full", "reentrant"),
    "optimizer": tuple(_OPTIMIZERS),
    "method": tuple(_METHODS),
    "accumulation": (1, 2),
    "strategy": tuple(_STRATEGIES),
}
#: Names of what is adapted or frozen: linear layers of attention, the embedding, the first layer.
_NAMES = {
    "gpt2": (("c_attn",), "transformer.w", "transformer.h.0."),
    "opt": (("q_proj", "v_proj"), "model.decoder.embed", "model.decoder.layers.0."),
    "gpt_neox": (("query_key_value",), "gpt_neox.embed_in", "gpt_neox.layers.0."),
    "phi3": (("qkv_proj",), "model.embed_tokens", "model.layers.0."),
}
_USUAL = (("q_proj", "v_proj"), "model.embed_tokens", "model.layers.0.")


def allowed(row: Row) -> bool:
    """Whether a case may have these values together."""
    family, strategy = row.get("family"), row.get("strategy", "one")
    method, precision = row.get("method", "full"), row.get("precision")
    optimizer = row.get("optimizer", "adamw foreach")
    sharded = strategy.startswith("fsdp")
    return not (
        # These have no grouped queries, and these always have as many keys as queries.
        (family in NOT_GROUPED and row.get("heads", "equal") != "equal")
        # Phi's and GPT-NeoX's classes are not recorded with tied weights and a bias of the output layer.
        or (family == "phi" and row.get("tied"))
        # flash-attn has no kernels for fp32.
        or (row.get("attention") == "flash_attention_2" and precision == "fp32")
        or (method == "qlora" and (precision not in (None, "bf16") or strategy != "one"))
        # Conv1D is no layer that bitsandbytes quantises.
        or (method == "qlora" and family == "gpt2")
        # What shares its storage with the output layer would train there.
        or (method == "frozen start" and row.get("tied"))
        or (optimizer == "adamw in backward" and (strategy != "one" or row.get("accumulation", 1) > 1))
        or (("8-bit" in optimizer or optimizer == "adafactor") and strategy != "one")
        # FSDP averages gradients in a type that autocast's parameters have: one set-up for each precision.
        or (sharded and row.get("accumulation", 1) > 1)
    )


def case(row: Row) -> Case:
    """A row as a case."""
    family = row["family"]
    targets, embedding, layer = _NAMES.get(family, _USUAL)
    settings: dict[str, Any] = {
        **_OPTIMIZERS[row["optimizer"]],
        **_METHODS[row["method"]],
        **_STRATEGIES[row["strategy"]],
    }
    if settings.get("lora") == ("some",):
        settings["lora"] = targets
    # A flat parameter has one type.
    if "lora" in settings and row["precision"] == "bf16" and row["strategy"].startswith("fsdp"):
        settings["lora_dtype"] = "bf16"
    names = {"embedding": embedding, "layer": layer}
    settings["frozen"] = tuple(names[each] for each in settings.get("frozen", ()))
    return Case(
        "-".join(str(row[name]).replace(" ", "_") for name in FACTORS),
        family=family,
        kv_heads=_HEADS[row["heads"]],
        tied=row["tied"],
        batch=row["batch"],
        precision=row["precision"],
        attention=row["attention"],
        checkpointing=row["checkpointing"] != "none",
        reentrant=row["checkpointing"] == "reentrant",
        accumulation=row["accumulation"],
        **settings,
    )


def selected(most: int | None = None) -> list[Case]:
    """Cases in which every allowed pair of values occurs, or so many of them."""
    return [case(row) for row in pairwise(FACTORS, allowed, most)]
