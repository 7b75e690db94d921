"""Decoders built like Llama: grouped attention with rotary positions, a gated feed-forward, RMSNorm."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.job.families.build import Parts, Reader
from oomph.job.model import Model

_LLAMA: dict[str, object] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "llama": _LLAMA,
    "mistral": {
        **_LLAMA,
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
    },
    "qwen2": {
        **_LLAMA,
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
    },
    "qwen3": {
        **_LLAMA,
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
    },
    "granite": _LLAMA,
}


def dimensions(read: Reader) -> dict[str, int]:
    """The dimensions that this family and those like it have."""
    hidden, heads = read.number("hidden_size"), read.number("num_attention_heads")
    head_dim = read.optional("head_dim")
    return {
        "layers": read.number("num_hidden_layers"),
        "hidden": hidden,
        "intermediate": read.number("intermediate_size"),
        "heads": heads,
        "kv_heads": read.optional("num_key_value_heads") or heads,
        "head_dim": head_dim or read.divided("hidden_size", "num_attention_heads", hidden, heads),
        "vocab": read.number("vocab_size"),
        "positions": read.number("max_position_embeddings"),
    }


@dataclass(frozen=True)
class Biases:
    """Which linears have a bias."""

    qkv: bool = False
    out: bool = False
    mlp: bool = False


def attention(parts: Parts, dims: dict[str, int], biases: Biases) -> None:
    """q, k, v and output projections under `self_attn`."""
    hidden, head_dim = dims["hidden"], dims["head_dim"]
    queries, keys = dims["heads"] * head_dim, dims["kv_heads"] * head_dim
    parts.linear("self_attn.q_proj", hidden, queries, bias=biases.qkv)
    parts.linear("self_attn.k_proj", hidden, keys, bias=biases.qkv)
    parts.linear("self_attn.v_proj", hidden, keys, bias=biases.qkv)
    parts.linear("self_attn.o_proj", queries, hidden, bias=biases.out)


def gated_mlp(parts: Parts, hidden: int, intermediate: int, *, bias: bool = False, name: str = "mlp") -> None:
    """gate, up and down projections."""
    parts.linear(f"{name}.gate_proj", hidden, intermediate, bias=bias)
    parts.linear(f"{name}.up_proj", hidden, intermediate, bias=bias)
    parts.linear(f"{name}.down_proj", intermediate, hidden, bias=bias)


def build(model: Model, read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters of llama, mistral, qwen2, qwen3 and granite."""
    parts, family, hidden = Parts(), model.family, dims["hidden"]
    if family == "qwen2":
        biases = Biases(qkv=True)
    elif family == "mistral":
        biases = Biases()
    else:
        both = read.switch("attention_bias")
        biases = Biases(both, both, family != "qwen3" and read.switch("mlp_bias"))
    with parts.under("model"):
        parts.tokens("embed_tokens", dims["vocab"], hidden)
        with parts.under("layers", range(dims["layers"])):
            attention(parts, dims, biases)
            if family == "qwen3":
                parts.norm("self_attn.q_norm", dims["head_dim"])
                parts.norm("self_attn.k_norm", dims["head_dim"])
            gated_mlp(parts, hidden, dims["intermediate"], bias=biases.mlp)
            parts.norm("input_layernorm", hidden)
            parts.norm("post_attention_layernorm", hidden)
        parts.norm("norm", hidden)
    parts.head("lm_head", hidden, dims["vocab"], tied=read.switch("tie_word_embeddings"))
    return parts
