"""More decoders: Cohere's Command R, GLM, Nemotron, Arcee, Seed-OSS."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import Biases, attention, dimensions, gated_mlp, output

__all__ = ["DEFAULTS", "build", "dimensions"]

_COHERE: dict[str, object] = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "attention_bias": False,
}
_GLM: dict[str, object] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "attention_bias": True,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "arcee": {
        "vocab_size": 32000,
        "hidden_size": 2560,
        "intermediate_size": 18432,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
    },
    "cohere": {**_COHERE, "use_qk_norm": False},
    "cohere2": _COHERE,
    "glm": _GLM,
    "glm4": _GLM,
    "nemotron": {
        "vocab_size": 256000,
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 32,
        "num_attention_heads": 48,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
    },
    "seed_oss": {
        "vocab_size": 155136,
        "hidden_size": 4096,
        "intermediate_size": 27648,
        "num_hidden_layers": 64,
        "num_attention_heads": 80,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 524288,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "attention_out_bias": False,
        "mlp_bias": False,
    },
}


def _feed_forward(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    family, hidden, wide = read.model.family, dims["hidden"], dims["intermediate"]
    bias = read.switch("mlp_bias")
    if family in ("glm", "glm4"):
        parts.linear("mlp.gate_up_proj", hidden, 2 * wide)
        parts.linear("mlp.down_proj", wide, hidden)
    elif family in ("arcee", "nemotron"):  # relu squared: no gate
        parts.linear("mlp.up_proj", hidden, wide, bias=bias)
        parts.linear("mlp.down_proj", wide, hidden, bias=bias)
    else:
        gated_mlp(parts, hidden, wide, bias=bias)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, family, hidden = Parts(), read.model.family, dims["hidden"]
    bias = read.switch("attention_bias")
    out = (
        False
        if family in ("glm", "glm4")
        else read.switch("attention_out_bias")
        if family == "seed_oss"
        else bias
    )
    layer_norm = family == "nemotron"
    read.refuse("use_qk_norm")
    with parts.under("model"):
        parts.tokens("embed_tokens", dims["vocab"], hidden)
        with parts.under("layers", range(dims["layers"])):
            attention(parts, dims, Biases(bias, out))
            _feed_forward(parts, read, dims)
            parts.norm("input_layernorm", hidden, bias=layer_norm)
            if not family.startswith("cohere"):  # attention and feed-forward share one normalisation there
                parts.norm("post_attention_layernorm", hidden, bias=layer_norm)
            if family == "glm4":
                parts.norm("post_self_attn_layernorm", hidden)
                parts.norm("post_mlp_layernorm", hidden)
        parts.norm("norm", hidden, bias=layer_norm)
    output(parts, read, hidden, dims["vocab"])
    return parts
