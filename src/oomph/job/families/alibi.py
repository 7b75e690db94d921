"""Falcon and BLOOM: fused query_key_value, no learned positions."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import output

__all__ = ["DEFAULTS", "build", "dimensions"]

DEFAULTS: dict[str, dict[str, object]] = {
    "bloom": {
        "vocab_size": 250880,
        "hidden_size": 64,
        "n_layer": 2,
        "n_head": 8,
        "tie_word_embeddings": True,
    },
    "falcon": {
        "vocab_size": 65024,
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "alibi": False,
        "new_decoder_architecture": False,
        "multi_query": True,
        "parallel_attn": True,
        "bias": False,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
}


def dimensions(read: Reader) -> dict[str, int]:
    """The dimensions. BLOOM's positions are not limited: `positions` is what its models were trained with."""
    hidden = read.number("hidden_size", "n_embed")
    layers = read.number("num_hidden_layers", "n_layer")
    heads = read.number("num_attention_heads", "n_head")
    dims = {
        "layers": layers,
        "hidden": hidden,
        "intermediate": 4 * hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": read.divided("hidden_size", "num_attention_heads", hidden, heads),
        "vocab": read.number("vocab_size"),
        "positions": read.optional("max_position_embeddings", "seq_length") or 2048,
    }
    if read.model.family == "falcon":
        dims["intermediate"] = read.optional("ffn_hidden_size") or 4 * hidden
        if read.switch("new_decoder_architecture"):
            dims["kv_heads"] = read.optional("num_kv_heads", "n_head_kv") or heads
        elif read.switch("multi_query"):
            dims["kv_heads"] = 1
    return dims


def _falcon_norms(parts: Parts, read: Reader, hidden: int) -> None:
    new = read.switch("new_decoder_architecture")
    # FalconDecoderLayer: one normalisation for both branches, or one for each
    norms = read.optional("num_ln_in_parallel_attn") or (2 if new else 1)
    if not read.switch("parallel_attn"):
        names: tuple[str, ...] = ("post_attention_layernorm", "input_layernorm")
    elif norms == 2:
        names = ("ln_attn", "ln_mlp")
    else:
        names = ("input_layernorm",)
    for name in names:
        parts.norm(name, hidden, bias=True)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, bloom, hidden = Parts(), read.model.family == "bloom", dims["hidden"]
    bias = bloom or read.switch("bias")
    fused = (dims["heads"] + 2 * dims["kv_heads"]) * dims["head_dim"]
    with parts.under("transformer"):
        parts.tokens("word_embeddings", dims["vocab"], hidden)
        if bloom:
            parts.norm("word_embeddings_layernorm", hidden, bias=True)
        with parts.under("h", range(dims["layers"])):
            if bloom:
                parts.norm("input_layernorm", hidden, bias=True)
            parts.linear("self_attention.query_key_value", hidden, fused, bias=bias)
            parts.linear("self_attention.dense", hidden, hidden, bias=bias)
            if bloom:
                parts.norm("post_attention_layernorm", hidden, bias=True)
            parts.linear("mlp.dense_h_to_4h", hidden, dims["intermediate"], bias=bias)
            parts.linear("mlp.dense_4h_to_h", dims["intermediate"], hidden, bias=bias)
            if not bloom:
                _falcon_norms(parts, read, hidden)
        parts.norm("ln_f", hidden, bias=True)
    output(parts, read, hidden, dims["vocab"])
    return parts
