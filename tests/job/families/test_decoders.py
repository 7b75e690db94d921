"""Dense decoders: each parameter's name, shape, order and tying as transformers' own class has it."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.job.families import architecture
from tests.job.families.meta import model_of, real_parameters, same_parameters

#: Dimensions that no two tensors can share by chance.
SMALL = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 77,
}
GPT = {"vocab_size": 211, "n_positions": 77, "n_embd": 48, "n_layer": 3, "n_head": 6}
CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (family, SMALL)
        for family in ("llama", "mistral", "qwen2", "qwen3", "granite", "olmo", "olmo2", "olmo3")
    ),
    *(
        (family, SMALL)
        for family in ("gemma", "gemma2", "gemma3_text", "phi", "phi3", "stablelm", "starcoder2")
    ),
    ("smollm3", SMALL),
    (
        "llama",
        {**SMALL, "attention_bias": True, "mlp_bias": True, "head_dim": 10, "tie_word_embeddings": True},
    ),
    ("mistral", {**SMALL, "head_dim": 12}),
    ("qwen2", {**SMALL, "tie_word_embeddings": True}),
    ("qwen3", {**SMALL, "attention_bias": True, "head_dim": 24}),
    ("granite", {**SMALL, "attention_bias": True, "mlp_bias": True}),
    ("gemma3_text", {**SMALL, "head_dim": 20, "attention_bias": True}),
    ("phi", {**SMALL, "qk_layernorm": True}),
    ("phi3", {**SMALL, "tie_word_embeddings": True}),
    ("stablelm", {**SMALL, "use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}),
    ("starcoder2", {**SMALL, "use_bias": False, "tie_word_embeddings": False}),
    *((family, SMALL) for family in ("arcee", "cohere", "cohere2", "glm", "glm4", "nemotron", "seed_oss")),
    *((family, {**SMALL, "attention_bias": True}) for family in ("arcee", "cohere", "cohere2", "nemotron")),
    ("glm", {**SMALL, "attention_bias": False, "head_dim": 12}),
    ("nemotron", {**SMALL, "mlp_bias": True, "head_dim": 12}),
    ("seed_oss", {**SMALL, "attention_out_bias": True, "mlp_bias": True, "head_dim": None}),
    *((family, GPT) for family in ("gpt2", "gpt_bigcode", "gptj")),
    ("gpt2", {**GPT, "n_inner": 130, "tie_word_embeddings": False}),
    ("gpt_bigcode", {**GPT, "multi_query": False}),
    ("gpt_neox", SMALL),
    ("gpt_neox", {**SMALL, "attention_bias": False, "tie_word_embeddings": True}),
    ("falcon", {**SMALL}),
    ("falcon", {**SMALL, "multi_query": False, "bias": True, "alibi": True}),
    ("falcon", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
    ("falcon", {**SMALL, "parallel_attn": False, "ffn_hidden_size": 96}),
    ("bloom", {"vocab_size": 211, "hidden_size": 48, "n_layer": 3, "n_head": 6}),
    ("bloom", {"vocab_size": 211, "n_embed": 48, "num_hidden_layers": 3, "num_attention_heads": 6}),
    ("opt", {**SMALL, "ffn_dim": 104, "word_embed_proj_dim": 48}),
    ("opt", {**SMALL, "ffn_dim": 104, "word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    ("opt", {**SMALL, "ffn_dim": 104, "enable_bias": False, "layer_norm_elementwise_affine": False}),
]


@pytest.mark.parametrize(("family", "config"), CASES)
def test_every_parameter(family: str, config: dict[str, Any]) -> None:
    same_parameters(architecture(model_of(family, **config)), real_parameters(family, config))
