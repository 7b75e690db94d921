"""The model that Megatron-LM's arguments describe, as a configuration of transformers."""

from __future__ import annotations

from oomph.job.config import from_config
from oomph.job.importers.imported import Collector
from oomph.job.importers.values import whole


def put_model(collector: Collector) -> None:
    """The model: a block like Llama's (with Qwen's q/k norms or biases), or GPT's; others are refused by name."""
    if not all(_number(collector, name) for name in ("layers", "hidden", "heads")):
        collector.note(
            "num_layers, hidden_size and num_attention_heads make the model; one of them is missing"
        )
        return
    rope = collector.get("given.position") == "rope" or bool(collector.get("given.rope"))
    gated, rms = bool(collector.get("given.swiglu")), collector.get("given.norm") == "rms"
    config = _llama(collector) if gated and rms and rope else _gpt(collector)
    if not (gated and rms and rope) and (gated or rms or rope or collector.get("given.grouped")):
        collector.refuse(
            "model",
            "neither GPT's block nor Llama's",
            "SwiGLU, RMSNorm and rotary embedding come together here",
        )
    config["tie_word_embeddings"] = not collector.get("given.untie")
    vocab = _vocab(collector)
    if vocab is None:
        collector.note(
            "the vocabulary's size is in the tokenizer: give --vocab-size, or padded_vocab_size of what is printed"
        )
    else:
        config["vocab_size"] = vocab
    collector.model = from_config(config, "Megatron-LM's arguments")


def _number(collector: Collector, key: str) -> int | None:
    return whole(collector.get(f"given.{key}"))


def _positions(collector: Collector) -> int:
    return _number(collector, "positions") or whole(collector.get("batch.sequence")) or 2048


def _llama(collector: Collector) -> dict[str, object]:
    hidden, heads = _number(collector, "hidden") or 1, _number(collector, "heads") or 1
    if not collector.get("given.no_bias"):
        collector.refuse("add_bias_linear", True, "biases of a llama-like model")
    dropout = _dropout(collector, "hidden")
    if dropout:
        collector.refuse("hidden_dropout", dropout, "of a llama-like model; 0.1 by default")
    norms, biases = bool(collector.get("given.qk_norm")), bool(collector.get("given.qkv_bias"))
    if norms and biases:
        collector.refuse("qk_layernorm", True, "beside add_qkv_bias")
    return {
        # Qwen 2 has biases in q, k and v only, Qwen 3 norms of q and k: what these two arguments add.
        "model_type": "qwen3" if norms else "qwen2" if biases else "llama",
        "hidden_size": hidden,
        "num_hidden_layers": _number(collector, "layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": _number(collector, "groups") if collector.get("given.grouped") else heads,
        # 4h is turned into 8h/3 to a multiple of 64 for gated MLPs (arguments.py).
        "intermediate_size": _number(collector, "ffn") or int(4 * hidden * 2 / 3) // 64 * 64,
        "head_dim": _number(collector, "head_dim") or hidden // heads,
        "max_position_embeddings": _positions(collector),
        "attention_bias": False,
        "attention_dropout": _dropout(collector, "attention"),
        "mlp_bias": False,
    }


def _gpt(collector: Collector) -> dict[str, object]:
    hidden = _number(collector, "hidden") or 1
    return {
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_layer": _number(collector, "layers"),
        "n_head": _number(collector, "heads"),
        "n_inner": _number(collector, "ffn") or 4 * hidden,
        "n_positions": _positions(collector),
        "attn_pdrop": _dropout(collector, "attention"),
        "embd_pdrop": _dropout(collector, "hidden"),
        "resid_pdrop": _dropout(collector, "hidden"),
    }


def _dropout(collector: Collector, which: str) -> float:
    """0.1 unless it is written (arguments.py)."""
    found = collector.get(f"given.{which}_dropout")
    return found if isinstance(found, float) else 0.1


def _vocab(collector: Collector) -> int | None:
    """Padded to a multiple of make_vocab_size_divisible_by times the tensor-parallel ranks."""
    padded, vocab = _number(collector, "padded_vocab"), _number(collector, "vocab")
    if padded is not None or vocab is None:
        return padded
    multiple = (_number(collector, "vocab_multiple") or 128) * (whole(collector.get("parallel.tensor")) or 1)
    return -(-vocab // multiple) * multiple
