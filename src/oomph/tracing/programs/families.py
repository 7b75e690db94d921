"""The families that programs are made for, as transformers has them: what a config needs for any dimensions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from oomph.tracing.programs import configs
from oomph.tracing.programs.dimensions import EXPERT_NAMES, LATENT_NAMES, ROUTER_NAMES
from oomph.tracing.programs.tasks import TASKS

Dimensions = Mapping[str, int]


@dataclass(frozen=True)
class Family:
    """One family. `name` is config.json's model_type; `config` gives the config's fields for dimensions. `tasks`: what
    it is trained for, with the name of the output layer then. `images`: sequences are patches of images. `hidden`: the
    width is a dimension of its own, not heads * head_dim. `heads` are the relations of kv_heads to heads that it has.
    `dropout`: fields of the config that switch dropout off, where its defaults have some. `names`: further dimensions
    that sizes are made of. `window`: fields of the config with which a sequence is longer than the attention's window,
    and `kinds` the section of each layer then, where not all are alike; without a window, of each layer always. `ties`:
    a parameter and the one whose storage it shares where the config ties them. `latent`: keys and values are made of
    latents. `forms`: further configs, by the name that variants have for them (`form`)."""

    name: str
    config: Callable[[Dimensions], dict[str, Any]]
    layers: str = "model.layers"
    tasks: Mapping[str, str] = field(default_factory=lambda: {"causal_lm": "lm_head"})
    images: bool = False
    hidden: bool = True
    heads: tuple[str, ...] = ("grouped", "equal")
    attention: tuple[str, ...] = ("sdpa", "eager", "flash_attention_2")
    dropout: Mapping[str, float] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    window: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    ties: Mapping[str, str] = field(default_factory=lambda: {"lm_head.weight": "model.embed_tokens.weight"})
    latent: bool = False
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})


_BERT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_NO_PADDING = {"original_max_position_embeddings": 1 << 20, "pad_token_id": 0}
_WIDE_WINDOW = {"sliding_window": 1 << 19}
_NARROW_WINDOW = {"sliding_window": 16}
_SLIDING, _FULL = ["sliding_attention"] * 3, ["full_attention"] * 3
_DENSE_FIRST = ("dense",) * 3 + ("block",) * 3
_LATENT_DIMENSIONS = (*EXPERT_NAMES, *ROUTER_NAMES, *LATENT_NAMES)
_GPT2_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
_LIST = (
    Family("llama", configs.with_head_dim),
    Family(
        "mistral",
        lambda dimensions: configs.with_head_dim(dimensions) | {"sliding_window": None},
        window=_NARROW_WINDOW,
    ),
    Family("qwen2", configs.common, hidden=False),
    Family("qwen3", configs.with_head_dim),
    Family("gemma", configs.with_head_dim, heads=("grouped", "equal", "single")),
    Family(
        "gemma2",
        lambda dimensions: configs.with_head_dim(dimensions) | _WIDE_WINDOW,
        attention=("eager", "flash_attention_2"),
    ),
    Family(
        "gemma3_text",
        lambda dimensions: configs.with_head_dim(dimensions) | _WIDE_WINDOW,
        heads=("grouped", "single"),
        window={"layer_types": _SLIDING + _FULL, "num_hidden_layers": 6, **_NARROW_WINDOW},
        kinds=("block",) * 3 + ("full",) * 3,
    ),
    Family("phi3", configs.also(**_NO_PADDING), hidden=False, window=_NARROW_WINDOW),
    Family("phi", configs.partial, hidden=False, heads=("equal",)),
    Family(
        "gpt2",
        configs.gpt2,
        layers="transformer.h",
        hidden=False,
        heads=("equal",),
        dropout=_GPT2_DROPOUT,
        ties={"lm_head.weight": "transformer.wte.weight"},
    ),
    Family("granite", configs.common, hidden=False),
    Family("olmo", configs.common, hidden=False),
    Family("olmo2", configs.common, hidden=False),
    Family(
        "starcoder2",
        configs.also(sliding_window=None),
        hidden=False,
        heads=("grouped",),
        window=_NARROW_WINDOW,
    ),
    Family("stablelm", configs.partial, hidden=False),
    Family(
        "gpt_neox",
        configs.partial,
        layers="gpt_neox.layers",
        hidden=False,
        heads=("equal",),
        ties={"lm_head.weight": "gpt_neox.embed_in.weight"},
    ),
    Family(
        "gpt_bigcode",
        configs.bigcode,
        layers="transformer.h",
        hidden=False,
        heads=("single", "equal"),
        dropout=_GPT2_DROPOUT,
        ties={"lm_head.weight": "transformer.wte.weight"},
    ),
    Family(
        "falcon",
        configs.falcon,
        layers="transformer.h",
        hidden=False,
        heads=("single", "grouped"),
        ties={"lm_head.weight": "transformer.word_embeddings.weight"},
    ),
    Family(
        "opt",
        configs.opt,
        layers="model.decoder.layers",
        hidden=False,
        heads=("equal",),
        dropout={"dropout": 0.0},
        ties={"lm_head.weight": "model.decoder.embed_tokens.weight"},
    ),
    Family(
        "bloom",
        configs.bloom,
        layers="transformer.h",
        hidden=False,
        heads=("equal",),
        attention=("eager",),
        ties={"lm_head.weight": "transformer.word_embeddings.weight"},
    ),
    Family(
        "mixtral", configs.experts("num_local_experts", base=configs.with_head_dim), names=EXPERT_NAMES[:2]
    ),
    Family(
        "qwen2_moe",
        configs.experts(
            "num_experts", "moe_intermediate_size", shared_expert_intermediate_size="shared_intermediate"
        ),
        hidden=False,
        names=EXPERT_NAMES,
    ),
    Family(
        "qwen3_moe",
        configs.experts("num_experts", "moe_intermediate_size", configs.with_head_dim),
        names=EXPERT_NAMES[:3],
    ),
    Family(
        "gpt_oss",
        configs.gpt_oss,
        heads=("grouped",),
        attention=("eager",),
        names=EXPERT_NAMES[:2],
        kinds=("block", "full") * 3,
    ),
    Family(
        "deepseek_v2",
        configs.latent,
        heads=("equal",),
        names=_LATENT_DIMENSIONS,
        kinds=_DENSE_FIRST,
        latent=True,
        forms={
            "": {"topk_method": "group_limited_greedy"},
            "plain_queries": {"q_lora_rank": None, "topk_method": "greedy"},
        },
    ),
    Family(
        "deepseek_v3",
        configs.latent,
        heads=("equal",),
        names=_LATENT_DIMENSIONS,
        kinds=_DENSE_FIRST,
        latent=True,
        forms={"": {}, "plain_queries": {"q_lora_rank": None}},
    ),
    Family("olmoe", configs.experts("num_experts"), hidden=False, names=EXPERT_NAMES[:2]),
    Family(
        "bert",
        configs.encoder,
        layers="bert.encoder.layer",
        tasks={"sequence_classification": "classifier", "masked_lm": "cls"},
        hidden=False,
        heads=("equal",),
        attention=("sdpa", "eager"),
        dropout=_BERT_DROPOUT,
        names=("classes",),
        ties={"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight"},
    ),
    Family(
        "roberta",
        configs.encoder,
        layers="roberta.encoder.layer",
        tasks={"sequence_classification": "classifier", "masked_lm": "lm_head"},
        hidden=False,
        heads=("equal",),
        attention=("sdpa", "eager"),
        dropout=_BERT_DROPOUT,
        names=("classes",),
        ties={"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight"},
    ),
    Family(
        "xlm-roberta",
        configs.encoder,
        layers="roberta.encoder.layer",
        tasks={"sequence_classification": "classifier", "masked_lm": "lm_head"},
        hidden=False,
        heads=("equal",),
        attention=("sdpa", "eager"),
        dropout=_BERT_DROPOUT,
        names=("classes",),
        ties={"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight"},
    ),
    Family(
        "distilbert",
        configs.distilbert,
        layers="distilbert.transformer.layer",
        tasks={"sequence_classification": "classifier", "masked_lm": "vocab_projector"},
        hidden=False,
        heads=("equal",),
        attention=("sdpa", "eager"),
        dropout={"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
        names=("classes",),
        ties={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    ),
    Family(
        "modernbert",
        configs.modernbert,
        tasks={"sequence_classification": "classifier", "masked_lm": "decoder"},
        hidden=False,
        heads=("equal",),
        names=("classes",),
        window={
            "local_attention": 16,
            "num_hidden_layers": 6,
            "layer_types": [_FULL[0], *_SLIDING, *_FULL[:2]],
        },
        kinds=("full", *("block",) * 3, "full", "full"),
        ties={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    ),
    Family(
        "vit",
        configs.vit,
        layers="vit.layers",
        tasks={"image_classification": "classifier"},
        images=True,
        hidden=False,
        heads=("equal",),
        attention=("sdpa", "eager"),
        names=("classes", "image", "patch", "side"),
        ties={},
    ),
)
FAMILIES: Mapping[str, Family] = {family.name: family for family in _LIST}


def model(
    family: Family,
    dimensions: Dimensions,
    attention: str,
    dropout: bool = False,
    more: Mapping[str, Any] | None = None,
    task: str = "causal_lm",
) -> Any:
    """A model of the family on the CPU, with an output layer of its own and whatever is in its memory as weights.
    `more`: further fields of the config."""
    import transformers
    from transformers.initialization import no_init_weights

    fields = {**family.config(dimensions), **({} if dropout else family.dropout), **(more or {})}
    if task.endswith("classification"):
        fields["num_labels"] = dimensions["classes"]
    config = transformers.AutoConfig.for_model(family.name, **fields)
    config.tie_word_embeddings = False
    auto = getattr(transformers, TASKS[task].auto)
    with no_init_weights():
        net = auto.from_config(config, attn_implementation=attention)
    if attention == "flash_attention_2":
        as_with_flash_attn(sys.modules[type(net).__module__])
    return net


def as_with_flash_attn(module: ModuleType) -> None:
    """Some modules import this only where the flash_attn package is installed, for which a stand-in came later."""
    from transformers import modeling_flash_attention_utils as utilities

    if not hasattr(module, "_flash_attention_forward"):
        for name in ("_flash_attention_forward", "flash_attn_supports_top_left_mask"):
            if hasattr(utilities, name):
                setattr(module, name, getattr(utilities, name))
