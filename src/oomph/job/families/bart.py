"""BART: an encoder and a decoder with learned positions."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import output

__all__ = ["DEFAULTS", "build", "dimensions"]

DEFAULTS: dict[str, dict[str, object]] = {
    "bart": {
        "vocab_size": 50265,
        "max_position_embeddings": 1024,
        "d_model": 1024,
        "encoder_layers": 12,
        "encoder_ffn_dim": 4096,
        "encoder_attention_heads": 16,
        "decoder_layers": 12,
        "decoder_ffn_dim": 4096,
        "decoder_attention_heads": 16,
        "tie_word_embeddings": True,
    }
}
#: BartLearnedPositionalEmbedding has two rows more than positions.
_OFFSET = 2


def dimensions(read: Reader) -> dict[str, int]:
    """The usual ones, of the encoder; those of the decoder that may differ as `decoder_...`."""
    hidden, heads = read.number("d_model"), read.number("encoder_attention_heads")
    decoder_heads = read.number("decoder_attention_heads")
    read.divided("d_model", "decoder_attention_heads", hidden, decoder_heads)
    return {
        "layers": read.number("encoder_layers"),
        "decoder_layers": read.number("decoder_layers"),
        "hidden": hidden,
        "intermediate": read.number("encoder_ffn_dim"),
        "decoder_intermediate": read.number("decoder_ffn_dim"),
        "heads": heads,
        "kv_heads": heads,
        "decoder_heads": decoder_heads,
        "head_dim": read.divided("d_model", "encoder_attention_heads", hidden, heads),
        "vocab": read.number("vocab_size"),
        "positions": read.number("max_position_embeddings"),
    }


def _attention(parts: Parts, hidden: int, name: str) -> None:
    for each in ("k_proj", "v_proj", "q_proj", "out_proj"):
        parts.linear(f"{name}.{each}", hidden, hidden, bias=True)
    parts.norm(f"{name}_layer_norm", hidden, bias=True)


def _stack(parts: Parts, dims: dict[str, int], shared: bool, decoder: bool) -> None:
    hidden, before = dims["hidden"], "decoder_" if decoder else ""
    wide = dims[f"{before}intermediate"]
    with parts.under("decoder" if decoder else "encoder"):
        tied = "model.shared.weight" if shared else ""
        parts.add("embed_tokens.weight", dims["vocab"], hidden, kind="embedding", tied=tied)
        parts.positions("embed_positions", dims["positions"] + _OFFSET, hidden, dims["positions"])
        with parts.under("layers", range(dims[f"{before}layers"])):
            _attention(parts, hidden, "self_attn")
            if decoder:
                _attention(parts, hidden, "encoder_attn")
            parts.linear("fc1", hidden, wide, bias=True)
            parts.linear("fc2", wide, hidden, bias=True)
            parts.norm("final_layer_norm", hidden, bias=True)
        parts.norm("layernorm_embedding", hidden, bias=True)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters.

    Untied, encoder and decoder have embeddings of their own in transformers 5; before, they shared one.
    """
    parts, shared = Parts(), read.major < 5 or read.switch("tie_word_embeddings")
    with parts.under("model"):
        parts.tokens("shared", dims["vocab"], dims["hidden"])
        _stack(parts, dims, shared, decoder=False)
        _stack(parts, dims, shared, decoder=True)
    output(parts, read, dims["hidden"], dims["vocab"])
    return parts
