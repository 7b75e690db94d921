"""Names of blocks for people: operators of PyTorch by what they make."""

from __future__ import annotations

from oomph.memory.categories import Category
from oomph.predict.sharding.terms import PAGES

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
    "vocab_embedding": "embeddings",
    "all_gather": "activations gathered from tensor-parallel ranks",
    "reduce_scatter": "activations reduced over tensor-parallel ranks",
    "all_reduce": "activations summed over tensor-parallel ranks",
    "_grouped_mm": "results of the experts' products",
    "all_to_all": "rows exchanged between the experts' ranks",
    "positions": "places of rows among the experts' ranks",
    "index": "rows looked up",
    "topk": "routing of rows to experts",
    "sort": "routing of rows to experts",
    "floor_divide": "routing of rows to experts",
    "histc": "routing of rows to experts",
    "clamp": "activation functions",
    "sigmoid": "activation functions",
    "new_empty": "tensors that are filled later",
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


#: Pages of docs/terms by words of a name, the first that is found; then by category.
_PAGES = (
    ("compiled", "compile"),
    ("the experts' ranks", "expert-parallel"),
    ("tensor-parallel", "tensor-parallel"),
    ("for a collective", "sequence-parallel"),
    ("of all ranks", "context-parallel"),
    ("of the ring", "context-parallel"),
    ("of a step", "context-parallel"),
    ("receive buffers", "pipeline-parallel"),
    ("to be sent", "pipeline-parallel"),
    ("put together", "pipeline-parallel"),
    ("back from the host", "activation-offload"),
    ("of the layer before", "activation-offload"),
    ("gathered", "sharding-gathered"),
    ("shards", "sharding-shards"),
    ("masters", "optimizer-master"),
    ("partition", "sharding-zero-masters"),
    ("bucket", "sharding-ddp-buckets"),
    ("reduce", "sharding-reduce"),
    ("host", "sharding-host"),
    ("quantised", "quantised"),
    ("dequantised", "quantised"),
    ("exp_avg", "optimizer-adam"),
    ("square roots of second", "optimizer-adam"),
    ("row and column", "optimizer-adafactor"),
    ("Adafactor", "optimizer-adafactor"),
    ("absmax", "optimizer-bnb"),
    ("Lion", "optimizer-lion"),
    ("Newton-Schulz", "optimizer-muon"),
    ("momentum", "optimizer-sgd"),
    ("norms of gradients", "optimizer-clip"),
    ("logits", "loss"),
    ("output layer", "loss"),
    ("predictions", "evaluation"),
    ("keys and values", "evaluation"),
    ("dropout", "adapters"),
    ("cast by autocast", "activations"),
)
_BY_CATEGORY = {
    Category.PARAMETERS: "sharding-whole",
    Category.GRADIENTS: "sharding-whole",
    Category.ACTIVATIONS: "activations",
    Category.TEMPORARIES: "activations",
    Category.WORKSPACE: "outside",
}


def page_of(category: Category, name: str) -> str:
    """The page of docs/terms that explains a term; "" where there is none."""
    known = PAGES.get(name)
    if known is not None:
        return known
    return next((page for word, page in _PAGES if word in name), _BY_CATEGORY.get(category, ""))
