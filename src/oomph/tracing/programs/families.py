"""The families that programs are made for, as transformers has them: what a config needs for any dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Dimensions = Mapping[str, int]


@dataclass(frozen=True)
class Family:
    """One family. `name` is config.json's model_type; `config` gives the config's fields for dimensions. `hidden`: the
    width is a dimension of its own, not heads * head_dim. `heads` are the relations of kv_heads to heads that it has.
    `dropout`: fields of the config that switch dropout off, where its defaults have some. `ties`: a parameter and the
    one whose storage it shares where the config ties them."""

    name: str
    config: Callable[[Dimensions], dict[str, Any]]
    layers: str = "model.layers"
    head: str = "lm_head"
    hidden: bool = True
    heads: tuple[str, ...] = ("grouped", "equal")
    attention: tuple[str, ...] = ("sdpa", "eager", "flash_attention_2")
    dropout: Mapping[str, float] = field(default_factory=dict)
    ties: Mapping[str, str] = field(default_factory=lambda: {"lm_head.weight": "model.embed_tokens.weight"})


def _common(dimensions: Dimensions) -> dict[str, Any]:
    return {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "intermediate_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "num_key_value_heads": dimensions["kv_heads"],
        "max_position_embeddings": 1 << 20,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }


def _with_head_dim(dimensions: Dimensions) -> dict[str, Any]:
    return _common(dimensions) | {"head_dim": dimensions["head_dim"]}


_LIST = (Family("llama", _with_head_dim),)
FAMILIES: Mapping[str, Family] = {family.name: family for family in _LIST}


def model(family: Family, dimensions: Dimensions, attention: str, dropout: bool = False) -> Any:
    """A model of the family on the CPU, untrained, with an output layer of its own."""
    import transformers

    fields = {**family.config(dimensions), **({} if dropout else family.dropout)}
    config = transformers.AutoConfig.for_model(family.name, **fields)
    config.tie_word_embeddings = False
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def forward(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """As a Trainer's step: the returned object is held."""
    del dimensions
    outputs = net(**batch, use_cache=False)
    return {"loss": outputs.loss, "logits": outputs.logits}
