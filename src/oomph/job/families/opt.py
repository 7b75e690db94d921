"""OPT."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import output

__all__ = ["DEFAULTS", "build", "dimensions"]

DEFAULTS: dict[str, dict[str, object]] = {
    "opt": {
        "vocab_size": 50272,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "ffn_dim": 3072,
        "max_position_embeddings": 2048,
        "do_layer_norm_before": True,
        "_remove_final_layer_norm": False,
        "num_attention_heads": 12,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
        "tie_word_embeddings": True,
    }
}
#: OPTLearnedPositionalEmbedding has two rows more than positions.
_OFFSET = 2


def dimensions(read: Reader) -> dict[str, int]:
    """The dimensions; `word_embedding` is the width of the embedding where it is not the hidden size."""
    hidden, heads = read.number("hidden_size"), read.number("num_attention_heads")
    return {
        "layers": read.number("num_hidden_layers"),
        "hidden": hidden,
        "intermediate": read.number("ffn_dim"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": read.divided("hidden_size", "num_attention_heads", hidden, heads),
        "vocab": read.number("vocab_size"),
        "positions": read.number("max_position_embeddings"),
        "word_embedding": read.optional("word_embed_proj_dim") or hidden,
    }


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, hidden, embedded = Parts(), dims["hidden"], dims["word_embedding"]
    bias, affine = read.switch("enable_bias"), read.switch("layer_norm_elementwise_affine")
    with parts.under("model.decoder"):
        parts.tokens("embed_tokens", dims["vocab"], embedded)
        parts.positions("embed_positions", dims["positions"] + _OFFSET, hidden, dims["positions"])
        if embedded != hidden:
            parts.linear("project_out", hidden, embedded)
            parts.linear("project_in", embedded, hidden)
        if affine and read.switch("do_layer_norm_before") and not read.switch("_remove_final_layer_norm"):
            parts.norm("final_layer_norm", hidden, bias=True)
        with parts.under("layers", range(dims["layers"])):
            for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
                parts.linear(f"self_attn.{name}", hidden, hidden, bias=bias)
            if affine:
                parts.norm("self_attn_layer_norm", hidden, bias=True)
            parts.linear("fc1", hidden, dims["intermediate"], bias=bias)
            parts.linear("fc2", dims["intermediate"], hidden, bias=bias)
            if affine:
                parts.norm("final_layer_norm", hidden, bias=True)
    output(parts, read, embedded, dims["vocab"])
    return parts
