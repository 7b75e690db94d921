"""The families with several stacks that programs are made for, as transformers has them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oomph.tracing.programs import families as usual
from oomph.tracing.programs.forward import Batch, Forward
from oomph.tracing.programs.stacked import configs, tasks

Dimensions = Mapping[str, int]


@dataclass(frozen=True)
class Family:
    """One family. `config` gives the config's fields for dimensions; `stacks` are the lists of layers by task; `names`
    what sizes are made of. `tasks`: what it is trained for. `dropout`: fields that switch it off, where the defaults
    have some. `forms`: further fields, by the name that variants have for them (`form`). `sets` gives dimensions for a
    batch of any size, or (true) of one. `heads`: relations of kv_heads to heads. `pads`: attention runs otherwise where
    a batch has padding."""

    name: str
    config: Callable[[Dimensions], dict[str, Any]]
    stacks: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    sets: Callable[[str, bool], list[dict[str, int]]]
    tasks: Mapping[str, Task]
    attention: tuple[str, ...] = ("sdpa", "eager")
    dropout: Mapping[str, float] = field(default_factory=dict)
    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    heads: tuple[str, ...] = ("equal",)
    ties: Mapping[str, str] = field(default_factory=dict)
    pads: bool = False


@dataclass(frozen=True)
class Task:
    """One task: the class of transformers that gives a model for it, what it reads, and how it is called."""

    auto: str
    batch: Batch
    run: Forward


_SEQ2SEQ = {"seq2seq_lm": Task("AutoModelForSeq2SeqLM", tasks.pairs, tasks.seq2seq)}
_DEBERTA = ("deberta.encoder.layer",)
_TOWERS = ("vision_model.encoder.layers", "text_model.encoder.layers")
_SEEING_NAMES = (
    "b",
    "s",
    "v",
    "patches",
    "hidden",
    "intermediate",
    "heads",
    "kv_heads",
    "groups",
    "head_dim",
    "vocab",
    "positions",
    "projection",
    "vision_hidden",
    "vision_intermediate",
    "vision_heads",
    "vision_head_dim",
    "image",
    "patch",
    "side",
)
_BART_DROPOUT = {"dropout": 0.0}
_LIST = (
    Family(
        "t5",
        configs.t5,
        {"seq2seq_lm": ("encoder.block", "decoder.block")},
        ("b", "s", "t", "hidden", "intermediate", "heads", "head_dim", "vocab", "buckets"),
        configs.pairs,
        _SEQ2SEQ,
        dropout={"dropout_rate": 0.0},
        pads=True,
        forms={"": {}, "gated": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}},
        ties={
            "lm_head.weight": "shared.weight",
            "encoder.embed_tokens.weight": "shared.weight",
            "decoder.embed_tokens.weight": "shared.weight",
        },
    ),
    Family(
        "bart",
        configs.bart,
        {"seq2seq_lm": ("model.encoder.layers", "model.decoder.layers")},
        (
            "b",
            "s",
            "t",
            "hidden",
            "intermediate",
            "decoder_intermediate",
            "heads",
            "decoder_heads",
            "head_dim",
            "vocab",
            "positions",
        ),
        configs.bart_pairs,
        _SEQ2SEQ,
        attention=("sdpa", "eager", "flash_attention_2"),
        dropout=_BART_DROPOUT,
        pads=True,
        ties={
            "lm_head.weight": "model.shared.weight",
            "model.encoder.embed_tokens.weight": "model.shared.weight",
            "model.decoder.embed_tokens.weight": "model.shared.weight",
        },
    ),
    Family(
        "deberta-v2",
        configs.deberta,
        {"sequence_classification": _DEBERTA, "token_classification": _DEBERTA, "masked_lm": _DEBERTA},
        ("b", "s", "hidden", "intermediate", "heads", "head_dim", "vocab", "positions", "buckets", "classes"),
        configs.deberta_sets,
        {
            "sequence_classification": Task(
                "AutoModelForSequenceClassification", tasks.labelled, tasks.plain
            ),
            "token_classification": Task("AutoModelForTokenClassification", tasks.tagged, tasks.plain),
            "masked_lm": Task("AutoModelForMaskedLM", tasks.tagged, tasks.plain),
        },
        attention=("eager",),
        dropout={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ),
    Family(
        "clip",
        configs.clip,
        {"contrastive": _TOWERS},
        _SEEING_NAMES,
        configs.clip_sets,
        {"contrastive": Task("AutoModel", tasks.captioned, tasks.contrastive)},
        pads=True,
    ),
    Family(
        "siglip",
        configs.siglip,
        {"contrastive": _TOWERS},
        _SEEING_NAMES,
        configs.siglip_sets,
        {"contrastive": Task("AutoModel", tasks.captioned_unmasked, tasks.contrastive)},
    ),
    Family(
        "llava",
        configs.llava,
        {"causal_lm": ("model.vision_tower.encoder.layers", "model.language_model.layers")},
        _SEEING_NAMES,
        configs.llava_sets,
        {"causal_lm": Task("AutoModelForImageTextToText", tasks.illustrated, tasks.language)},
        attention=("sdpa", "flash_attention_2"),
        pads=True,
    ),
)
FAMILIES: Mapping[str, Family] = {family.name: family for family in _LIST}


def model(family: Family, dimensions: Dimensions, attention: str, dropout: bool, form: str, task: str) -> Any:
    """A model of the family on the CPU, with whatever is in its memory as weights, and nothing tied."""
    import transformers
    from transformers.initialization import no_init_weights

    off = {} if dropout else family.dropout
    fields = {**family.config(dimensions), **off, **family.forms[form]}
    config = transformers.AutoConfig.for_model(family.name, **fields)
    config.tie_word_embeddings = False
    with no_init_weights():
        auto = getattr(transformers, family.tasks[task].auto)
        net = auto.from_config(config, attn_implementation=attention)
    if attention == "flash_attention_2":
        usual.as_with_flash_attn(sys.modules[type(net).__module__])
    return net
