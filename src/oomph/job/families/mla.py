"""DeepSeek V2 and V3: latent attention, experts after the first layers."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import gated_mlp, output
from oomph.job.families.moe import experts

__all__ = ["DEFAULTS", "build", "dimensions"]

_SHARED: dict[str, object] = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "attention_bias": False,
    "tie_word_embeddings": False,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "deepseek_v2": {
        **_SHARED,
        "vocab_size": 102400,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "mlp_bias": False,
        "first_k_dense_replace": 0,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "moe_intermediate_size": 1407,
    },
    "deepseek_v3": {
        **_SHARED,
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "max_position_embeddings": 4096,
        "first_k_dense_replace": 3,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
    },
}


def dimensions(read: Reader) -> dict[str, int]:
    """The usual ones, those of experts as `moe.dimensions` has them, and the ranks and widths of latent attention
    (`q_rank`, 0 where queries are not compressed; `kv_rank`, `nope_dim`, `rope_dim`, `v_dim`). `head_dim` is the width
    of a head's queries and keys; every head has keys and values of its own."""
    heads, layers = read.number("num_attention_heads"), read.number("num_hidden_layers")
    width = read.number("moe_intermediate_size")
    nope, rope = read.number("qk_nope_head_dim"), read.number("qk_rope_head_dim")
    return {
        "layers": layers,
        "hidden": read.number("hidden_size"),
        "intermediate": read.number("intermediate_size"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": nope + rope,
        "vocab": read.number("vocab_size"),
        "positions": read.number("max_position_embeddings"),
        "q_rank": read.optional("q_lora_rank") or 0,
        "kv_rank": read.number("kv_lora_rank"),
        "nope_dim": nope,
        "rope_dim": rope,
        "v_dim": read.number("v_head_dim"),
        "experts": read.number("n_routed_experts"),
        "top_k": read.number("num_experts_per_tok"),
        "moe_intermediate": width,
        "shared_intermediate": width * read.number("n_shared_experts", least=0),
        "sparse_layers": max(0, layers - read.number("first_k_dense_replace", least=0)),
    }


def _attention(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    hidden, heads, bias = dims["hidden"], dims["heads"], read.switch("attention_bias")
    if dims["q_rank"]:
        parts.linear("self_attn.q_a_proj", hidden, dims["q_rank"], bias=bias)
        parts.norm("self_attn.q_a_layernorm", dims["q_rank"])
        parts.linear("self_attn.q_b_proj", dims["q_rank"], heads * dims["head_dim"])
    else:
        parts.linear("self_attn.q_proj", hidden, heads * dims["head_dim"])
    parts.linear("self_attn.kv_a_proj_with_mqa", hidden, dims["kv_rank"] + dims["rope_dim"], bias=bias)
    parts.norm("self_attn.kv_a_layernorm", dims["kv_rank"])
    parts.linear("self_attn.kv_b_proj", dims["kv_rank"], heads * (dims["nope_dim"] + dims["v_dim"]))
    parts.linear("self_attn.o_proj", heads * dims["v_dim"], hidden, bias=bias)


def _sparse(parts: Parts, read: Reader, dims: dict[str, int], bias: bool) -> None:
    experts(parts, read, dims, "mlp", ("gate_proj", "up_proj", "down_proj"))
    parts.add("mlp.gate.weight", dims["experts"], dims["hidden"])
    if dims["shared_intermediate"]:
        gated_mlp(parts, dims["hidden"], dims["shared_intermediate"], bias=bias, name="mlp.shared_experts")


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, hidden, layers = Parts(), dims["hidden"], dims["layers"]
    dense = layers - dims["sparse_layers"]
    bias = read.switch("mlp_bias")
    with parts.under("model"):
        parts.tokens("embed_tokens", dims["vocab"], hidden)
        with parts.under("layers", range(layers)):
            _attention(parts, read, dims)
        if dense:
            with parts.under("layers", range(dense)):
                gated_mlp(parts, hidden, dims["intermediate"], bias=bias)
        if dims["sparse_layers"]:
            with parts.under("layers", range(dense, layers)):
                _sparse(parts, read, dims, bias)
        with parts.under("layers", range(layers)):
            parts.norm("input_layernorm", hidden)
            parts.norm("post_attention_layernorm", hidden)
        parts.norm("norm", hidden)
    output(parts, read, hidden, dims["vocab"])
    return parts
