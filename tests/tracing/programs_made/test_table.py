"""Tables of parameters against transformers' own classes, at dimensions that they were not made at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers

import oomph.job
from oomph.memory.recipe.grammar import parse

TABLES = Path(oomph.job.__file__).parent / "families" / "tables"
AUTO = {
    "causal_lm": transformers.AutoModelForCausalLM,
    "sequence_classification": transformers.AutoModelForSequenceClassification,
}
LLAMA = {
    "vocab_size": 3301, "hidden_size": 12 * 32, "intermediate_size": 936, "num_hidden_layers": 4,
    "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 48,
}  # fmt: skip
LLAMA_DIMENSIONS = {
    "vocab": 3301, "hidden": 384, "intermediate": 936, "heads": 12, "kv_heads": 4, "groups": 3, "head_dim": 48,
}  # fmt: skip
GPT2 = {"vocab_size": 3301, "n_embd": 384, "n_inner": 936, "n_layer": 2, "n_head": 12, "n_positions": 777}
GPT2_DIMENSIONS = {
    "vocab": 3301, "hidden": 384, "intermediate": 936, "heads": 12, "kv_heads": 12, "groups": 1, "head_dim": 32,
    "positions": 777,
}  # fmt: skip
MODERNBERT = {
    "vocab_size": 50400, "hidden_size": 384, "intermediate_size": 936, "num_hidden_layers": 3,
    "num_attention_heads": 12,
}  # fmt: skip
DEEPSEEK = {
    "vocab_size": 3301, "hidden_size": 384, "intermediate_size": 936, "num_hidden_layers": 4, "num_attention_heads": 12,
    "num_key_value_heads": 12, "first_k_dense_replace": 1, "q_lora_rank": 144, "kv_lora_rank": 80,
    "qk_nope_head_dim": 40, "qk_rope_head_dim": 24, "v_head_dim": 56, "n_routed_experts": 8, "n_shared_experts": 3,
    "moe_intermediate_size": 104, "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2,
}  # fmt: skip
DEEPSEEK_DIMENSIONS = {
    "vocab": 3301, "hidden": 384, "intermediate": 936, "heads": 12, "kv_heads": 12, "groups": 1, "head_dim": 64,
    "q_rank": 144, "kv_rank": 80, "nope_dim": 40, "rope_dim": 24, "v_dim": 56, "experts": 8,
    "expert_intermediate": 104, "shared_intermediate": 312,
}  # fmt: skip
MIXTRAL_DIMENSIONS = LLAMA_DIMENSIONS | {"experts": 5, "top_k": 2}


@pytest.mark.parametrize(
    ("family", "fields", "when", "dimensions"),
    [
        ("llama", LLAMA, {}, LLAMA_DIMENSIONS),
        ("llama", LLAMA, {"mlp_bias": True}, LLAMA_DIMENSIONS),
        ("gpt2", GPT2, {}, GPT2_DIMENSIONS),
        ("mixtral", LLAMA | {"num_local_experts": 5, "num_experts_per_tok": 2}, {}, MIXTRAL_DIMENSIONS),
        ("modernbert", MODERNBERT, {}, GPT2_DIMENSIONS | {"vocab": 50400, "classes": 2}),
        ("deepseek_v2", DEEPSEEK, {}, DEEPSEEK_DIMENSIONS),
        ("deepseek_v3", DEEPSEEK, {}, DEEPSEEK_DIMENSIONS),
    ],
    ids=["llama", "llama with biases", "gpt2", "mixtral", "modernbert", "deepseek v2", "deepseek v3"],
)
def test_a_table_has_the_parameters_of_the_class(family, fields, when, dimensions):
    file = json.loads((TABLES / f"{family}.json").read_text(encoding="utf-8"))
    table = next(each for each in file["tables"] if each["when"] == when)
    config = transformers.AutoConfig.for_model(family, **fields, **when, tie_word_embeddings=False)
    with torch.device("meta"):
        net = AUTO[table["task"]].from_config(config)
    expected = {name: tuple(parameter.shape) for name, parameter in net.named_parameters()}
    written = {name: sizes(shape, dimensions) for name, shape in table["parameters"].items()}
    for layer in range(config.num_hidden_layers):
        other = "block" if layer < fields.get("first_k_dense_replace", 0) else "dense"
        for name, shape in table["layer"].items():
            if name in table.get("only", {}).get(other, ()):
                continue
            if layer or name not in table.get("first_lacks", ()):
                written[f"{file['layers']}.{layer}.{name}"] = sizes(shape, dimensions)
    assert written == expected


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_what_a_table_ties_is_one_parameter(family):
    """A tied model has no other parameter than these two that are one."""
    ties = json.loads((TABLES / f"{family}.json").read_text(encoding="utf-8"))["ties"]
    auto = transformers.AutoModelForMaskedLM if family == "bert" else transformers.AutoModelForCausalLM
    config = transformers.AutoConfig.for_model(family, num_hidden_layers=2, tie_word_embeddings=True)
    with torch.device("meta"):
        net = auto.from_config(config)
        net.tie_weights()
    parameters = dict(net.named_parameters(remove_duplicate=False))
    for name, other in ties.items():
        assert parameters[name] is parameters[other]


def sizes(shape, dimensions):
    return tuple(parse(size).evaluate(dimensions, {}) for size in shape)
