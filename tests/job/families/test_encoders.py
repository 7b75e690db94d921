"""Encoders and T5: each parameter as transformers' own class has it."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from oomph.errors import UsageError
from oomph.job.families import architecture
from tests.job.families.meta import model_of, real_parameters, same_parameters

SMALL = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 77,
}
DISTIL = {
    "vocab_size": 211,
    "dim": 48,
    "hidden_dim": 104,
    "n_layers": 3,
    "n_heads": 6,
    "max_position_embeddings": 77,
}
DEBERTA = {
    **SMALL,
    "relative_attention": True,
    "position_buckets": 16,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
}
FAMILIES: list[tuple[str, str, dict[str, Any]]] = [
    ("bert", "Bert", SMALL),
    ("roberta", "Roberta", SMALL),
    ("distilbert", "DistilBert", DISTIL),
    ("deberta-v2", "DebertaV2", SMALL),
    ("deberta-v2", "DebertaV2", DEBERTA),
    (
        "deberta-v2",
        "DebertaV2",
        {**DEBERTA, "position_buckets": -1, "type_vocab_size": 2, "norm_rel_ebd": "none"},
    ),
    ("deberta-v2", "DebertaV2", {**DEBERTA, "position_buckets": -1, "max_relative_positions": 20}),
    ("modernbert", "ModernBert", SMALL),
    ("modernbert", "ModernBert", {**SMALL, "norm_bias": True, "attention_bias": True, "mlp_bias": True}),
    ("modernbert", "ModernBert", {**SMALL, "decoder_bias": False, "classifier_bias": True}),
]
TASKS = {
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "Model": "AutoModel",
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("family", "named", "config"), FAMILIES)
def test_every_parameter(family: str, named: str, config: dict[str, Any], task: str) -> None:
    ours = model_of(family, **config, architectures=[named + task], num_labels=5)
    same_parameters(architecture(ours), real_parameters(family, {**config, "num_labels": 5}, TASKS[task]))


@pytest.mark.parametrize("task", TASKS)
def test_xlm_roberta_in_roberta_s_order(task: str) -> None:
    found = architecture(model_of("xlm-roberta", **SMALL, architectures=["XLMRoberta" + task], num_labels=5))
    real = real_parameters("xlm-roberta", {**SMALL, "num_labels": 5}, TASKS[task])
    assert {name: one.shape for name, one in found.named()} == {
        name: shape for name, (shape, _, _) in real.items()
    }
    assert found.total == sum(prod(shape) for shape, tied, _ in real.values() if not tied)


def test_labels_by_name() -> None:
    config = {f"id2label.{number}": f"label {number}" for number in range(3)}
    ours = architecture(model_of("bert", **SMALL, **config, architectures=["BertForSequenceClassification"]))
    assert ours.parameters[-1].shape == (3,)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("bert", {**SMALL, "architectures": ["BertForQuestionAnswering"]}),
        ("bert", {**SMALL, "add_cross_attention": True}),
        ("deberta-v2", {**SMALL, "embedding_size": 24}),
        ("deberta-v2", {**SMALL, "conv_kernel_size": 3}),
        ("deberta-v2", {**DEBERTA, "share_att_key": False}),
        ("llama", {**SMALL, "architectures": ["LlamaForQuestionAnswering"]}),
        ("gpt2", {"add_cross_attention": True}),
    ],
)
def test_what_is_not_known_is_refused_by_name(family: str, config: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"unsupported: .*oomph trace"):
        architecture(model_of(family, **config))


def test_a_classifier_on_a_decoder() -> None:
    config = {**SMALL, "num_labels": 5}
    ours = model_of("llama", **config, architectures=["LlamaForSequenceClassification"])
    same_parameters(
        architecture(ours), real_parameters("llama", config, "AutoModelForSequenceClassification")
    )


T5 = {"vocab_size": 211, "d_model": 48, "d_kv": 10, "d_ff": 104, "num_layers": 3, "num_heads": 6}


@pytest.mark.parametrize(
    "config",
    [T5, {**T5, "num_decoder_layers": 2, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}],
)
def test_every_parameter_of_t5(config: dict[str, Any]) -> None:
    ours = model_of("t5", **config)
    same_parameters(architecture(ours), real_parameters("t5", config, "AutoModelForSeq2SeqLM"))


def test_flan_t5_s_own_output_layer_before_transformers_5() -> None:
    """google/flan-t5-small has 76,961,152 parameters on the hub, with an output layer of its own."""
    config = {
        "d_model": 512,
        "d_ff": 1024,
        "num_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": "gated-gelu",
    }
    assert architecture(model_of("t5", **config, tie_word_embeddings=False), 4).total == 76_961_152


def test_positions_that_padding_takes() -> None:
    assert (
        architecture(model_of("roberta", max_position_embeddings=514, pad_token_id=1)).learned_positions
        == 512
    )
    assert architecture(model_of("bert")).learned_positions == 512
    assert architecture(model_of("modernbert")).learned_positions is None


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_of_bart(tied: bool) -> None:
    config = {
        "vocab_size": 211,
        "d_model": 48,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_ffn_dim": 104,
        "decoder_ffn_dim": 88,
        "encoder_attention_heads": 6,
        "decoder_attention_heads": 4,
        "max_position_embeddings": 77,
        "tie_word_embeddings": tied,
    }
    found = architecture(model_of("bart", **config))
    same_parameters(found, real_parameters("bart", config, "AutoModelForSeq2SeqLM"))
    assert found.learned_positions == 77
