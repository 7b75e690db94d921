"""Gemma, Gemma 2 and the language model of Gemma 3."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import Biases, attention, dimensions, gated_mlp, output

__all__ = ["DEFAULTS", "build", "dimensions", "language"]

_GEMMA: dict[str, object] = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_GEMMA2: dict[str, object] = {
    **_GEMMA,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": {**_GEMMA2, "vocab_size": 262208, "max_position_embeddings": 131072},
}


def language(parts: Parts, family: str, read: Reader, dims: dict[str, int]) -> None:
    """The embedding, the layers and the last normalisation, under the prefix that `parts` has."""
    hidden, bias = dims["hidden"], read.switch("attention_bias")
    parts.tokens("embed_tokens", dims["vocab"], hidden)
    with parts.under("layers", range(dims["layers"])):
        attention(parts, dims, Biases(bias, bias))
        if family == "gemma3_text":
            parts.norm("self_attn.q_norm", dims["head_dim"])
            parts.norm("self_attn.k_norm", dims["head_dim"])
        gated_mlp(parts, hidden, dims["intermediate"])
        parts.norm("input_layernorm", hidden)
        parts.norm("post_attention_layernorm", hidden)
        if family != "gemma":
            parts.norm("pre_feedforward_layernorm", hidden)
            parts.norm("post_feedforward_layernorm", hidden)
    parts.norm("norm", hidden)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts = Parts()
    with parts.under("model"):
        language(parts, read.model.family, read, dims)
    output(parts, read, dims["hidden"], dims["vocab"])
    return parts
