"""T5, its 1.1 and FLAN-T5: an encoder and a decoder."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader

__all__ = ["DEFAULTS", "build", "dimensions"]

DEFAULTS: dict[str, dict[str, object]] = {
    "t5": {
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "feed_forward_proj": "relu",
        "tie_word_embeddings": True,
    }
}


def dimensions(read: Reader) -> dict[str, int]:
    """The usual ones; `layers` is the encoder's, `decoder_layers` the decoder's. Positions are relative: none ends."""
    heads, layers = read.number("num_heads"), read.number("num_layers")
    return {
        "layers": layers,
        "decoder_layers": read.optional("num_decoder_layers") or layers,
        "hidden": read.number("d_model"),
        "intermediate": read.number("d_ff"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": read.number("d_kv"),
        "vocab": read.number("vocab_size"),
        "positions": read.optional("n_positions") or 512,
    }


def _attention(parts: Parts, dims: dict[str, int], name: str) -> None:
    inner = dims["heads"] * dims["head_dim"]
    for each in "qkv":
        parts.linear(f"{name}.{each}", dims["hidden"], inner)
    parts.linear(f"{name}.o", inner, dims["hidden"])


def _feed_forward(parts: Parts, read: Reader, dims: dict[str, int], layer: int) -> None:
    name = f"layer.{layer}.DenseReluDense"
    gated = read.text("feed_forward_proj").startswith("gated-")
    for each in ("wi_0", "wi_1") if gated else ("wi",):
        parts.linear(f"{name}.{each}", dims["hidden"], dims["intermediate"])
    parts.linear(f"{name}.wo", dims["intermediate"], dims["hidden"])
    parts.norm(f"layer.{layer}.layer_norm", dims["hidden"])


def _stack(parts: Parts, read: Reader, dims: dict[str, int], decoder: bool) -> None:
    hidden, count = dims["hidden"], dims["decoder_layers" if decoder else "layers"]
    buckets = read.number("relative_attention_num_buckets")
    with parts.under("decoder" if decoder else "encoder"):
        parts.add("embed_tokens.weight", dims["vocab"], hidden, kind="embedding", tied="shared.weight")
        every = range(count)
        with parts.under("block", every):
            _attention(parts, dims, "layer.0.SelfAttention")
        with parts.under("block", range(1)):  # the first layer's table of relative positions serves all
            parts.embedding("layer.0.SelfAttention.relative_attention_bias", buckets, dims["heads"])
        with parts.under("block", every):
            parts.norm("layer.0.layer_norm", hidden)
            if decoder:
                _attention(parts, dims, "layer.1.EncDecAttention")
                parts.norm("layer.1.layer_norm", hidden)
            _feed_forward(parts, read, dims, 2 if decoder else 1)
        parts.norm("final_layer_norm", hidden)


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters. T5Config of transformers 5 ties the output layer whatever config.json says; before, T5 1.1 and
    FLAN-T5 had one of their own."""
    parts = Parts()
    parts.tokens("shared", dims["vocab"], dims["hidden"])
    _stack(parts, read, dims, decoder=False)
    _stack(parts, read, dims, decoder=True)
    parts.head(
        "lm_head", dims["hidden"], dims["vocab"], tied=read.major >= 5 or read.switch("tie_word_embeddings")
    )
    return parts
