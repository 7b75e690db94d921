"""Encoders: BERT, RoBERTa (and XLM-RoBERTa), DistilBERT, DeBERTa v2 and v3, ModernBERT.

XLM-RoBERTa's classes register their head before the rest; here it stands behind, as in RoBERTa's.
"""

from __future__ import annotations

from collections.abc import Callable

from oomph.errors import UsageError
from oomph.job.families.build import Parts, Reader

__all__ = ["DEFAULTS", "build", "dimensions"]

_BERT: dict[str, object] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "tie_word_embeddings": True,
}
_ROBERTA: dict[str, object] = {**_BERT, "vocab_size": 50265, "pad_token_id": 1}
DEFAULTS: dict[str, dict[str, object]] = {
    "bert": _BERT,
    "deberta-v2": {
        **_BERT,
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
        "type_vocab_size": 0,
        "relative_attention": False,
        "max_relative_positions": -1,
        "position_biased_input": True,
    },
    "distilbert": {
        "vocab_size": 30522,
        "dim": 768,
        "hidden_dim": 3072,
        "n_layers": 6,
        "n_heads": 12,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    },
    "modernbert": {
        "vocab_size": 50368,
        "hidden_size": 768,
        "intermediate_size": 1152,
        "num_hidden_layers": 22,
        "num_attention_heads": 12,
        "max_position_embeddings": 8192,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "tie_word_embeddings": True,
    },
    "roberta": _ROBERTA,
    "xlm-roberta": {**_BERT, "pad_token_id": 1},
}
_MASKED, _CLASSIFIER, _TAGGER, _BARE = "masked", "classifier", "tagger", "bare"


def dimensions(read: Reader) -> dict[str, int]:
    """The usual ones; every head has keys and values of its own."""
    hidden, heads = read.number("dim", "hidden_size"), read.number("n_heads", "num_attention_heads")
    return {
        "layers": read.number("n_layers", "num_hidden_layers"),
        "hidden": hidden,
        "intermediate": read.number("hidden_dim", "intermediate_size"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": read.divided("hidden_size", "num_attention_heads", hidden, heads),
        "vocab": read.number("vocab_size"),
        "positions": read.number("max_position_embeddings"),
    }


def _task(read: Reader) -> str:
    """What config.json's class is for; masked language modelling where it names none."""
    name = read.architecture
    for end, task in (
        ("ForMaskedLM", _MASKED),
        ("ForPreTraining", _MASKED),
        ("ForSequenceClassification", _CLASSIFIER),
        ("ForTokenClassification", _TAGGER),
        ("Model", _BARE),
    ):
        if name.endswith(end):
            return task
    if name:
        raise UsageError(
            f"unsupported: the head of {name} is not one that oomph knows; `oomph trace` measures any model from its "
            "code."
        )
    return _MASKED


def _layer(parts: Parts, dims: dict[str, int], names: tuple[str, str, str]) -> None:
    """BertLayer and those like it; `names` are those of query, key and value."""
    hidden, wide = dims["hidden"], dims["intermediate"]
    for name in names:
        parts.linear(f"attention.self.{name}", hidden, hidden, bias=True)
    parts.linear("attention.output.dense", hidden, hidden, bias=True)
    parts.norm("attention.output.LayerNorm", hidden, bias=True)
    parts.linear("intermediate.dense", hidden, wide, bias=True)
    parts.linear("output.dense", wide, hidden, bias=True)
    parts.norm("output.LayerNorm", hidden, bias=True)


def _tied_head(parts: Parts, read: Reader, dims: dict[str, int], name: str, middle: tuple[str, str]) -> None:
    """An output layer behind a linear and a normalisation, with the bias registered once more above it."""
    hidden, vocab = dims["hidden"], dims["vocab"]
    parts.add(f"{name}.bias", vocab)
    parts.linear(f"{name}.{middle[0]}", hidden, hidden, bias=True)
    parts.norm(f"{name}.{middle[1]}", hidden, bias=True)
    parts.head(f"{name}.decoder", hidden, vocab, tied=read.switch("tie_word_embeddings"))
    parts.add(f"{name}.decoder.bias", vocab, kind="bias", tied=f"{name}.bias")


def _classifier(parts: Parts, read: Reader, hidden: int) -> None:
    parts.head_name = "classifier"
    parts.linear("classifier", hidden, read.labels, bias=True)


def _bert(parts: Parts, read: Reader, dims: dict[str, int], task: str) -> None:
    hidden = dims["hidden"]
    roberta = read.model.family != "bert"
    with parts.under("" if task == _BARE else "roberta" if roberta else "bert"):
        parts.tokens("embeddings.word_embeddings", dims["vocab"], hidden)
        if not roberta:
            parts.positions("embeddings.position_embeddings", dims["positions"], hidden)
        parts.embedding("embeddings.token_type_embeddings", read.number("type_vocab_size"), hidden)
        parts.norm("embeddings.LayerNorm", hidden, bias=True)
        if roberta:  # RobertaEmbeddings counts positions from padding_idx + 1
            usable = dims["positions"] - (read.optional("pad_token_id", least=0) or 0) - 1
            parts.positions("embeddings.position_embeddings", dims["positions"], hidden, usable)
        with parts.under("encoder.layer", range(dims["layers"])):
            _layer(parts, dims, ("query", "key", "value"))
        if task == _BARE or (task == _CLASSIFIER and not roberta):
            parts.linear("pooler.dense", hidden, hidden, bias=True)
    if task == _MASKED and roberta:
        _tied_head(parts, read, dims, "lm_head", ("dense", "layer_norm"))
    elif task == _MASKED:
        _tied_head(parts, read, dims, "cls.predictions", ("transform.dense", "transform.LayerNorm"))
    elif task == _CLASSIFIER and roberta:
        parts.linear("classifier.dense", hidden, hidden, bias=True)
        parts.head_name = "classifier.out_proj"
        parts.linear("classifier.out_proj", hidden, read.labels, bias=True)
    elif task != _BARE:
        _classifier(parts, read, hidden)


def _distilbert(parts: Parts, read: Reader, dims: dict[str, int], task: str) -> None:
    hidden, wide = dims["hidden"], dims["intermediate"]
    with parts.under("" if task == _BARE else "distilbert"):
        parts.tokens("embeddings.word_embeddings", dims["vocab"], hidden)
        parts.positions("embeddings.position_embeddings", dims["positions"], hidden)
        parts.norm("embeddings.LayerNorm", hidden, bias=True)
        with parts.under("transformer.layer", range(dims["layers"])):
            for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
                parts.linear(f"attention.{name}", hidden, hidden, bias=True)
            parts.norm("sa_layer_norm", hidden, bias=True)
            parts.linear("ffn.lin1", hidden, wide, bias=True)
            parts.linear("ffn.lin2", wide, hidden, bias=True)
            parts.norm("output_layer_norm", hidden, bias=True)
    if task == _MASKED:
        parts.linear("vocab_transform", hidden, hidden, bias=True)
        parts.norm("vocab_layer_norm", hidden, bias=True)
        parts.head(
            "vocab_projector", hidden, dims["vocab"], tied=read.switch("tie_word_embeddings"), bias=True
        )
    elif task == _CLASSIFIER:
        parts.linear("pre_classifier", hidden, hidden, bias=True)
        _classifier(parts, read, hidden)
    elif task == _TAGGER:
        _classifier(parts, read, hidden)


def _deberta(parts: Parts, read: Reader, dims: dict[str, int], task: str) -> None:
    """DebertaV2Model. `embedding_size`, `conv_kernel_size` and untied positions are of models that few use."""
    hidden = dims["hidden"]
    for key in ("embedding_size", "conv_kernel_size", "attention_head_size"):
        if read.optional(key, least=0) not in (None, 0, hidden if key == "embedding_size" else None):
            raise UsageError(f"unsupported: {key} of {read.who}; `oomph trace` measures it from code.")
    with parts.under("" if task == _BARE else "deberta"):
        parts.tokens("embeddings.word_embeddings", dims["vocab"], hidden)
        if read.switch("position_biased_input"):
            parts.positions("embeddings.position_embeddings", dims["positions"], hidden)
        types = read.number("type_vocab_size", least=0)
        if types:
            parts.embedding("embeddings.token_type_embeddings", types, hidden)
        parts.norm("embeddings.LayerNorm", hidden, bias=True)
        with parts.under("encoder.layer", range(dims["layers"])):
            _layer(parts, dims, ("query_proj", "key_proj", "value_proj"))
            if read.switch("relative_attention") and read.raw("share_att_key") is not True:
                raise UsageError(
                    f"unsupported: share_att_key of {read.who} is off; `oomph trace` measures it from code."
                )
        if read.switch("relative_attention"):
            parts.embedding("encoder.rel_embeddings", _relative(read, dims), hidden)
            if "layer_norm" in read.text("norm_rel_ebd"):
                parts.norm("encoder.LayerNorm", hidden, bias=True)
    if task == _MASKED:
        _tied_head(parts, read, dims, "cls.predictions", ("transform.dense", "transform.LayerNorm"))
    elif task == _CLASSIFIER:
        parts.linear("pooler.dense", hidden, hidden, bias=True)
        _classifier(parts, read, hidden)
    elif task == _TAGGER:
        _classifier(parts, read, hidden)


def _relative(read: Reader, dims: dict[str, int]) -> int:
    """Rows of the table of relative positions (DebertaV2Encoder)."""
    buckets = read.number("position_buckets", least=-1) if read.raw("position_buckets") is not None else -1
    if buckets > 0:
        return 2 * buckets
    most = read.number("max_relative_positions", least=-1)
    return 2 * (most if most >= 1 else dims["positions"])


def _modern(parts: Parts, read: Reader, dims: dict[str, int], task: str) -> None:
    hidden, wide = dims["hidden"], dims["intermediate"]
    norm_bias, attention, mlp = (read.switch(f"{name}_bias") for name in ("norm", "attention", "mlp"))
    with parts.under("" if task == _BARE else "model"):
        parts.tokens("embeddings.tok_embeddings", dims["vocab"], hidden)
        parts.norm("embeddings.norm", hidden, bias=norm_bias)
        with parts.under("layers", range(1, dims["layers"])):
            parts.norm(
                "attn_norm", hidden, bias=norm_bias
            )  # the first layer has none: ModernBertEncoderLayer
        with parts.under("layers", range(dims["layers"])):
            parts.linear("attn.Wqkv", hidden, 3 * hidden, bias=attention)
            parts.linear("attn.Wo", hidden, hidden, bias=attention)
            parts.norm("mlp_norm", hidden, bias=norm_bias)
            parts.linear("mlp.Wi", hidden, 2 * wide, bias=mlp)
            parts.linear("mlp.Wo", wide, hidden, bias=mlp)
        parts.norm("final_norm", hidden, bias=norm_bias)
    if task == _BARE:
        return
    parts.linear("head.dense", hidden, hidden, bias=read.switch("classifier_bias"))
    parts.norm("head.norm", hidden, bias=norm_bias)
    if task == _MASKED:
        tied, bias = read.switch("tie_word_embeddings"), read.switch("decoder_bias")
        parts.head("decoder", hidden, dims["vocab"], tied=tied, bias=bias)
    else:
        _classifier(parts, read, hidden)


_BUILDERS: dict[str, Callable[[Parts, Reader, dict[str, int], str], None]] = {
    "bert": _bert,
    "deberta-v2": _deberta,
    "distilbert": _distilbert,
    "modernbert": _modern,
    "roberta": _bert,
    "xlm-roberta": _bert,
}


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters of the class that config.json names."""
    read.refuse("add_cross_attention")
    parts = Parts()
    _BUILDERS[read.model.family](parts, read, dims, _task(read))
    return parts
