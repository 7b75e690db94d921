"""What decoders share: their dimensions, grouped attention, the gated feed-forward, the output layer."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.errors import UsageError
from oomph.job.families.build import Parts, Reader

#: Ends of class names in config.json's `architectures` whose output layer is a language model's.
_LANGUAGE = ("ForCausalLM", "LMHeadModel", "LMHead", "ForConditionalGeneration", "ForPreTraining")


def dimensions(read: Reader) -> dict[str, int]:
    """The dimensions under the keys that most decoders share."""
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


def attention(parts: Parts, dims: dict[str, int], biases: Biases, *, out: str = "o_proj") -> None:
    """q, k, v and output projections under `self_attn`."""
    hidden, head_dim = dims["hidden"], dims["head_dim"]
    queries, keys = dims["heads"] * head_dim, dims["kv_heads"] * head_dim
    parts.linear("self_attn.q_proj", hidden, queries, bias=biases.qkv)
    parts.linear("self_attn.k_proj", hidden, keys, bias=biases.qkv)
    parts.linear("self_attn.v_proj", hidden, keys, bias=biases.qkv)
    parts.linear(f"self_attn.{out}", queries, hidden, bias=biases.out)


def gated_mlp(parts: Parts, hidden: int, intermediate: int, *, bias: bool = False, name: str = "mlp") -> None:
    """gate, up and down projections."""
    parts.linear(f"{name}.gate_proj", hidden, intermediate, bias=bias)
    parts.linear(f"{name}.up_proj", hidden, intermediate, bias=bias)
    parts.linear(f"{name}.down_proj", intermediate, hidden, bias=bias)


def output(parts: Parts, read: Reader, inputs: int, outputs: int, *, bias: bool = False) -> None:
    """The output layer that config.json's `architectures` names: `lm_head`, or a classifier's `score`.

    Raises UsageError for a class with another head.
    """
    named = read.architecture
    if named.endswith("ForSequenceClassification"):
        parts.head_name = "score"
        parts.linear("score", inputs, read.labels)
        return
    if "For" in named and not named.endswith(_LANGUAGE):
        raise UsageError(
            f"unsupported: the head of {named} is not one that oomph knows; `oomph trace` measures any model from "
            "its code."
        )
    parts.head("lm_head", inputs, outputs, tied=read.switch("tie_word_embeddings"), bias=bias)
