"""Names of blocks for people: operators of PyTorch by what they make."""

from __future__ import annotations

from oomph.memory.categories import Category

_WORDS = {
    "mm": "results of matrix products",
    "addmm": "results of matrix products",
    "bmm": "results of batched matrix products",
    "baddbmm": "results of batched matrix products",
    "_to_copy": "casts",
    "add": "residual sums",
    "mul": "products element by element",
    "silu": "activation functions",
    "gelu": "activation functions",
    "relu": "activation functions",
    "tanh": "activation functions",
    "cat": "concatenations",
    "clone": "copies",
    "native_dropout": "dropout and its masks",
    "_softmax": "softmax",
    "_log_softmax": "log-softmax of the logits",
    "embedding": "embeddings",
    "native_layer_norm": "norms",
    "_fused_rms_norm": "norms",
    "nll_loss_forward": "loss",
}
_ATTENTION = "attention outputs"


def name_of(category: Category, name: str) -> str:
    """A block's name: parameters' gradients as one, operators by what they make, everything else as it is."""
    if category is Category.GRADIENTS and "." in name:
        return "gradients"
    operator = name.removeprefix("aten.").removeprefix("oomph.")
    if "attention" in operator or operator.startswith("flash_attn"):
        return _ATTENTION
    if operator in _WORDS:
        return _WORDS[operator]
    return name if operator == name else f"results of {operator}"
