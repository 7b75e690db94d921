"""GPT-2, GPTBigCode, GPT-J and GPT-NeoX (Pythia)."""

from __future__ import annotations

from oomph.job.families.build import Parts, Reader
from oomph.job.families.decoder import output

__all__ = ["DEFAULTS", "build", "dimensions"]

_GPT2: dict[str, object] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "tie_word_embeddings": True,
    "add_cross_attention": False,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "gpt2": _GPT2,
    "gpt_bigcode": {**_GPT2, "multi_query": True},
    "gptj": {
        "vocab_size": 50400,
        "n_positions": 2048,
        "n_embd": 4096,
        "n_layer": 28,
        "n_head": 16,
        "tie_word_embeddings": False,
    },
    "gpt_neox": {
        "vocab_size": 50432,
        "hidden_size": 6144,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "intermediate_size": 24576,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "attention_bias": True,
    },
}


def dimensions(read: Reader) -> dict[str, int]:
    """The dimensions; GPT-NeoX has the usual keys, the others those of GPT-2."""
    hidden, heads = read.number("n_embd", "hidden_size"), read.number("n_head", "num_attention_heads")
    multi_query = read.model.family == "gpt_bigcode" and read.switch("multi_query")
    return {
        "layers": read.number("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "intermediate": read.optional("n_inner", "intermediate_size") or 4 * hidden,
        "heads": heads,
        "kv_heads": 1 if multi_query else heads,
        "head_dim": read.divided("the hidden size", "the number of heads", hidden, heads),
        "vocab": read.number("vocab_size"),
        "positions": read.number("n_positions", "max_position_embeddings"),
    }


def _gpt2(parts: Parts, _read: Reader, dims: dict[str, int]) -> None:
    hidden = dims["hidden"]
    parts.norm("ln_1", hidden, bias=True)
    parts.conv1d("attn.c_attn", hidden, 3 * hidden)
    parts.conv1d("attn.c_proj", hidden, hidden)
    parts.norm("ln_2", hidden, bias=True)
    parts.conv1d("mlp.c_fc", hidden, dims["intermediate"])
    parts.conv1d("mlp.c_proj", dims["intermediate"], hidden)


def _bigcode(parts: Parts, _read: Reader, dims: dict[str, int]) -> None:
    hidden = dims["hidden"]
    parts.norm("ln_1", hidden, bias=True)
    parts.linear("attn.c_attn", hidden, hidden + 2 * dims["kv_heads"] * dims["head_dim"], bias=True)
    parts.linear("attn.c_proj", hidden, hidden, bias=True)
    parts.norm("ln_2", hidden, bias=True)
    parts.linear("mlp.c_fc", hidden, dims["intermediate"], bias=True)
    parts.linear("mlp.c_proj", dims["intermediate"], hidden, bias=True)


def _gptj(parts: Parts, _read: Reader, dims: dict[str, int]) -> None:
    hidden = dims["hidden"]
    parts.norm("ln_1", hidden, bias=True)
    for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
        parts.linear(f"attn.{name}", hidden, hidden)
    parts.linear("mlp.fc_in", hidden, dims["intermediate"], bias=True)
    parts.linear("mlp.fc_out", dims["intermediate"], hidden, bias=True)


def _neox(parts: Parts, read: Reader, dims: dict[str, int]) -> None:
    hidden, bias = dims["hidden"], read.switch("attention_bias")
    parts.norm("input_layernorm", hidden, bias=True)
    parts.norm("post_attention_layernorm", hidden, bias=True)
    parts.linear("attention.query_key_value", hidden, 3 * hidden, bias=bias)
    parts.linear("attention.dense", hidden, hidden, bias=bias)
    parts.linear("mlp.dense_h_to_4h", hidden, dims["intermediate"], bias=True)
    parts.linear("mlp.dense_4h_to_h", dims["intermediate"], hidden, bias=True)


_LAYERS = {"gpt2": _gpt2, "gpt_bigcode": _bigcode, "gptj": _gptj}


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters."""
    parts, family, hidden = Parts(), read.model.family, dims["hidden"]
    if family == "gpt_neox":
        with parts.under("gpt_neox"):
            parts.tokens("embed_in", dims["vocab"], hidden)
            with parts.under("layers", range(dims["layers"])):
                _neox(parts, read, dims)
            parts.norm("final_layer_norm", hidden, bias=True)
        output(parts, read, hidden, dims["vocab"])
        return parts
    read.refuse("add_cross_attention")
    with parts.under("transformer"):
        parts.tokens("wte", dims["vocab"], hidden)
        if family != "gptj":
            parts.positions("wpe", dims["positions"], hidden)
        with parts.under("h", range(dims["layers"])):
            _LAYERS[family](parts, read, dims)
        parts.norm("ln_f", hidden, bias=True)
    output(parts, read, hidden, dims["vocab"], bias=family == "gptj")
    return parts
