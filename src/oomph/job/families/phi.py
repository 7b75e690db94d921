"""Phi (1, 1.5, 2), Phi-3 and Phi-4, StarCoder2 and StableLM: rotary decoders with linears of their own."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import Biases, attention, dimensions, gated_mlp, output

__all__ = ["DEFAULTS", "build", "dimensions"]

DEFAULTS: dict[str, dict[str, object]] = {
    "phi": {
        "vocab_size": 51200,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "qk_layernorm": False,
    },
    "phi3": {
        "vocab_size": 32064,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    },
    "stablelm": {
        "vocab_size": 50304,
        "hidden_size": 2560,
        "intermediate_size": 6912,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "use_qkv_bias": False,
        "qk_layernorm": False,
        "use_parallel_residual": False,
    },
    "starcoder2": {
        "vocab_size": 49152,
        "hidden_size": 3072,
        "intermediate_size": 12288,
        "num_hidden_layers": 30,
        "num_attention_heads": 24,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "use_bias": True,
    },
}


def _phi(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    attention(parts, dims, Biases(qkv=True, out=True), out="dense")
    if read.switch("qk_layernorm"):
        parts.norm("self_attn.q_layernorm", dims["head_dim"], bias=True)
        parts.norm("self_attn.k_layernorm", dims["head_dim"], bias=True)
    parts.linear("mlp.fc1", dims["hidden"], dims["intermediate"], bias=True)
    parts.linear("mlp.fc2", dims["intermediate"], dims["hidden"], bias=True)
    parts.norm("input_layernorm", dims["hidden"], bias=True)


def _phi3(parts: Parts, _read: Reader, dims: dict[str, int]) -> None:
    hidden, head_dim = dims["hidden"], dims["head_dim"]
    parts.linear("self_attn.o_proj", dims["heads"] * head_dim, hidden)
    parts.linear("self_attn.qkv_proj", hidden, (dims["heads"] + 2 * dims["kv_heads"]) * head_dim)
    parts.linear("mlp.gate_up_proj", hidden, 2 * dims["intermediate"])
    parts.linear("mlp.down_proj", dims["intermediate"], hidden)
    parts.norm("input_layernorm", hidden)
    parts.norm("post_attention_layernorm", hidden)


def _stablelm(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    attention(parts, dims, Biases(qkv=read.switch("use_qkv_bias")))
    if read.switch("qk_layernorm"):
        for name, heads in (("q", dims["heads"]), ("k", dims["kv_heads"])):
            for head in range(heads):
                parts.norm(f"self_attn.{name}_layernorm.norms.{head}", dims["head_dim"])
    gated_mlp(parts, dims["hidden"], dims["intermediate"])
    parts.norm("input_layernorm", dims["hidden"], bias=True)
    if not read.switch("use_parallel_residual"):
        parts.norm("post_attention_layernorm", dims["hidden"], bias=True)


def _starcoder2(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    bias, hidden = read.switch("use_bias"), dims["hidden"]
    attention(parts, dims, Biases(bias, bias))
    parts.linear("mlp.c_fc", hidden, dims["intermediate"], bias=bias)
    parts.linear("mlp.c_proj", dims["intermediate"], hidden, bias=bias)
    parts.norm("input_layernorm", hidden, bias=True)
    parts.norm("post_attention_layernorm", hidden, bias=True)


_LAYERS = {"phi": _phi, "phi3": _phi3, "stablelm": _stablelm, "starcoder2": _starcoder2}


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, family = Parts(), read.model.family
    with parts.under("model"):
        parts.tokens("embed_tokens", dims["vocab"], dims["hidden"])
        with parts.under("layers", range(dims["layers"])):
            _LAYERS[family](parts, read, dims)
        name = "final_layernorm" if family == "phi" else "norm"
        parts.norm(name, dims["hidden"], bias=family != "phi3")
    output(parts, read, dims["hidden"], dims["vocab"], bias=family == "phi")
    return parts
