"""Decoders built like Llama: grouped attention with rotary positions, a gated feed-forward, RMSNorm."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import Biases, attention, dimensions, gated_mlp, output

__all__ = ["DEFAULTS", "build", "dimensions"]

_LLAMA: dict[str, object] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_QWEN: dict[str, object] = {
    **_LLAMA,
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
}
_OLMO: dict[str, object] = {**_LLAMA, "vocab_size": 50304}
DEFAULTS: dict[str, dict[str, object]] = {
    "granite": _LLAMA,
    "llama": _LLAMA,
    "mistral": {
        **_LLAMA,
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
    },
    "olmo": _OLMO,
    "olmo2": _OLMO,
    "olmo3": _OLMO,
    "qwen2": _QWEN,
    "qwen3": {**_QWEN, "head_dim": 128},
    "smollm3": {
        **_LLAMA,
        "vocab_size": 128256,
        "hidden_size": 2048,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    },
}


def _biases(family: str, read: Reader) -> Biases:
    if family == "qwen2":
        return Biases(qkv=True)
    if family == "mistral":
        return Biases()
    both = read.switch("attention_bias")
    return Biases(both, both, family in ("llama", "granite", "smollm3") and read.switch("mlp_bias"))


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, family, hidden = Parts(), read.model.family, dims["hidden"]
    biases = _biases(family, read)
    post_norms = family in ("olmo2", "olmo3")  # they normalise what attention and feed-forward give, not take
    with parts.under("model"):
        parts.tokens("embed_tokens", dims["vocab"], hidden)
        with parts.under("layers", range(dims["layers"])):
            attention(parts, dims, biases)
            if family == "qwen3":
                parts.norm("self_attn.q_norm", dims["head_dim"])
                parts.norm("self_attn.k_norm", dims["head_dim"])
            elif post_norms:
                parts.norm("self_attn.q_norm", dims["heads"] * dims["head_dim"])
                parts.norm("self_attn.k_norm", dims["kv_heads"] * dims["head_dim"])
            gated_mlp(parts, hidden, dims["intermediate"], bias=biases.mlp)
            if family != "olmo":  # OLMo's normalisations have nothing to train
                if not post_norms:
                    parts.norm("input_layernorm", hidden)
                parts.norm("post_attention_layernorm", hidden)
                if post_norms:
                    parts.norm("post_feedforward_layernorm", hidden)
        if family != "olmo":
            parts.norm("norm", hidden)
    output(parts, read, hidden, dims["vocab"])
    return parts
