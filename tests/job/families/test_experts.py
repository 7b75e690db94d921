"""Mixtures of experts: each parameter as transformers' own class has it, and as older versions had it."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.errors import UsageError
from oomph.job.families import architecture, dimensions
from oomph.job.families.moe import runs
from tests.job.families.meta import model_of, real_parameters, same_parameters
from tests.job.families.test_decoders import SMALL

MOE = {**SMALL, "num_experts_per_tok": 2, "moe_intermediate_size": 56, "num_experts": 5}
DEEP = {
    **SMALL,
    "num_hidden_layers": 4,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "kv_lora_rank": 26,
    "q_lora_rank": 34,
    "qk_nope_head_dim": 14,
    "qk_rope_head_dim": 6,
    "v_head_dim": 18,
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("mixtral", {**SMALL, "num_local_experts": 5}),
    ("mixtral", {**SMALL, "num_local_experts": 5, "head_dim": 12, "tie_word_embeddings": True}),
    ("qwen2_moe", {**MOE, "shared_expert_intermediate_size": 88}),
    (
        "qwen2_moe",
        {**MOE, "num_hidden_layers": 8, "decoder_sparse_step": 2, "mlp_only_layers": [3], "qkv_bias": False},
    ),
    ("qwen3_moe", {**MOE, "head_dim": 12}),
    ("qwen3_moe", {**MOE, "num_hidden_layers": 6, "mlp_only_layers": [0, 1, 4], "attention_bias": True}),
    ("olmoe", {**SMALL, "num_experts": 5}),
    ("gpt_oss", {**SMALL, "num_local_experts": 5, "head_dim": 16}),
    ("gpt_oss", {**SMALL, "num_local_experts": 5, "attention_bias": False}),
    ("deepseek_v2", {**DEEP, "first_k_dense_replace": 1}),
    (
        "deepseek_v2",
        {**DEEP, "q_lora_rank": None, "attention_bias": True, "mlp_bias": True, "n_shared_experts": 1},
    ),
    ("deepseek_v3", {**DEEP, "first_k_dense_replace": 2, "n_shared_experts": 3}),
    ("deepseek_v3", {**DEEP, "q_lora_rank": None, "attention_bias": True, "first_k_dense_replace": 0}),
    ("deepseek_v3", {**DEEP, "first_k_dense_replace": 9}),
]


@pytest.mark.parametrize(("family", "config"), CASES)
def test_every_parameter(family: str, config: dict[str, Any]) -> None:
    same_parameters(architecture(model_of(family, **config)), real_parameters(family, config))


@pytest.mark.parametrize(("family", "config"), CASES)
def test_experts_as_modules_are_as_many_elements(family: str, config: dict[str, Any]) -> None:
    model = model_of(family, **config)
    assert architecture(model, 4).total == architecture(model).total


def test_names_of_experts_before_transformers_5() -> None:
    """modeling_mixtral.py and modeling_qwen2_moe.py of transformers 4.57."""
    mixtral = architecture(model_of("mixtral", **SMALL, num_local_experts=2), 4)
    assert [one.relative for one in mixtral.layer(1)][4:-2] == [
        "block_sparse_moe.gate.weight",
        "block_sparse_moe.experts.0.w1.weight",
        "block_sparse_moe.experts.0.w2.weight",
        "block_sparse_moe.experts.0.w3.weight",
        "block_sparse_moe.experts.1.w1.weight",
        "block_sparse_moe.experts.1.w2.weight",
        "block_sparse_moe.experts.1.w3.weight",
    ]
    shapes = {one.module: one.shape for one in mixtral.layer(1)}
    assert (shapes["w1"], shapes["w2"], shapes["w3"]) == ((104, 48), (48, 104), (104, 48))
    qwen = architecture(model_of("qwen2_moe", **{**MOE, "num_experts": 1}), 4)
    assert [one.relative for one in qwen.layer(1)][7:11] == [
        "mlp.gate.weight",
        "mlp.experts.0.gate_proj.weight",
        "mlp.experts.0.up_proj.weight",
        "mlp.experts.0.down_proj.weight",
    ]
    assert "gate_proj" in {one.module for one in qwen.layer(0) if one.kind == "linear"}


def test_layers_with_and_without_experts() -> None:
    found = architecture(model_of("deepseek_v3", **DEEP, first_k_dense_replace=2))
    assert found.depth() == 4
    assert len(set(found.per_layer)) == 2
    assert sum(found.per_layer) + sum(one.total for one in found.outside) == found.total
    assert dimensions(model_of("deepseek_v3", **DEEP, first_k_dense_replace=2))["sparse_layers"] == 2


@pytest.mark.parametrize(
    ("numbers", "ranges"),
    [
        ([], []),
        ([3], [range(3, 4)]),
        ([0, 1, 2], [range(3)]),
        ([1, 3, 5], [range(1, 6, 2)]),
        ([0, 1, 4], [range(2), range(4, 5)]),
    ],
)
def test_runs(numbers: list[int], ranges: list[range]) -> None:
    assert runs(numbers) == ranges


def test_a_list_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="mlp_only_layers"):
        architecture(model_of("qwen3_moe", **MOE, mlp_only_layers="all"))
