"""What one rank has to compute and to move in one optimizer step: counted from the model's dimensions.

Everything is arithmetic over the job; nothing is measured. `costs.py` turns it into seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from oomph.job.families import architecture, dimensions
from oomph.job.model import ITEM_BYTES, Job, Model

#: Kinds of attention that compute each pair of tokens, those of the future too.
_WHOLE = ("eager", "sdpa_math")


@dataclass(frozen=True)
class Shape:
    """The numbers of a model that work is counted from. `products`: weights that every token is multiplied with (of
    experts, those that a token sees); `total`: all weights; `attention`: heads x head size; `patches`: of an image,
    where the model takes images."""

    products: int
    total: int
    layers: int
    hidden: int
    attention: int
    patches: int = 0


@lru_cache(maxsize=64)
def shape_of(model: Model) -> Shape:
    """Of a model of a known family. Raises UsageError as `job.families` does."""
    dims, parts = dimensions(model), architecture(model)
    experts, seen = dims.get("experts", 1), dims.get("top_k", 1)
    products = 0
    for one in parts.parameters:
        if one.tied or one.kind in ("norm", "bias", "conv"):
            continue
        if one.kind == "embedding":  # a look-up; where the output layer is the same tensor, a product
            tied = any(each.tied == one.name for each in parts.parameters)
            products += one.total if tied else 0
            continue
        share = seen / experts if ".experts." in one.name and experts > seen else 1.0
        products += int(one.total * share)
    heads = dims.get("heads", 1)
    attention = heads * dims.get("head_dim", dims["hidden"] // heads)
    patches = dims.get("patches", dims.get("vision_patches", 0))
    return Shape(products, parts.total, dims["layers"], dims["hidden"], attention, patches)


@dataclass(frozen=True)
class Work:
    """Of one rank, in one micro-batch unless it says otherwise. FLOPs; bytes.

    forward, backward, recompute: FLOPs. dequantize: bytes read and written for 4-bit and 8-bit weights. weights:
    bytes of this rank's weights in the compute type (all that a forward reads). gradients, states: of the trainable
    elements of this rank before sharding over data ranks. saved: bytes that autograd keeps. tokens: of this rank.
    """

    forward: float
    backward: float
    recompute: float
    dequantize: float
    weights: float
    gradients: float
    trainable: float
    saved: float
    tokens: int
    layers: int
    hidden: int


def work_of(job: Job) -> Work:
    """The formulas: docs/remedies.md, "Step time". N tokens of this rank, P weights in products, b samples of s tokens,
    d = heads x head_dim.

    forward = 2 P N + 4 b s^2 d (half of it where causal attention skips the future) per layer;
    backward = 2 P N for inputs + 2 P' N for the weights that train + twice the attention (2.5 times with flash, which
    computes the scores again); recompute = the share of blocks that checkpointing runs again.
    """
    shape = shape_of(job.model)
    parallel, batch = job.parallel, job.batch
    split = parallel.tensor * parallel.pipeline
    length = batch.sequence or shape.patches or 1
    tokens = max(1, batch.micro * length // parallel.context)
    products = shape.products / split
    whole = job.attention in _WHOLE
    pairs = 4.0 * tokens * length * shape.attention * shape.layers / split * (1.0 if whole else 0.5)
    trained = trainable(job) / split
    forward = 2 * products * tokens + pairs
    weight_grads = 2 * min(trained, products) * tokens
    backward = 2 * products * tokens + weight_grads + pairs * (2.0 if whole else 2.5)
    item = ITEM_BYTES[job.precision.compute]
    return Work(
        forward=forward,
        backward=backward,
        recompute=recomputed(job) * forward,
        dequantize=_dequantized(job, products, item) * (2 + recomputed(job)),
        weights=shape.total / split * item,
        gradients=trained * ITEM_BYTES[job.precision.grads or job.precision.weights],
        trainable=trained,
        saved=_saved(job, shape, tokens) / split,
        tokens=tokens,
        layers=max(1, shape.layers // parallel.pipeline),
        hidden=shape.hidden,
    )


def recomputed(job: Job) -> float:
    """The share of a forward that backward runs again. Under selective checkpointing every second product is kept, and
    attention: about a half of the products, by count, and those are the larger part of the time."""
    mode = job.checkpointing.mode
    if mode == "full":
        return 1.0
    if mode == "every_n":
        return 1.0 / max(1, job.checkpointing.every)
    return 0.4 if mode == "selective_op" else 0.0


def trainable(job: Job) -> int:
    """Elements that train: all, or those of the adapters (rank x (inputs + outputs) of each adapted module)."""
    lora = job.method.lora
    if lora is None:
        return shape_of(job.model).total
    found = 0
    for one in architecture(job.model).parameters:
        if one.kind != "linear" or one.tied or len(one.shape) != 2:
            continue
        everywhere = "all-linear" in lora.targets and one.layers is not None
        if everywhere or one.module in lora.targets:
            found += lora.rank * sum(one.shape) * one.count
    return found


def _dequantized(job: Job, products: float, item: float) -> float:
    """Bytes per pass over quantised weights: the stored ones are read, the wide ones written and read."""
    quantization = job.method.quantization
    if quantization is None:
        return 0.0
    stored = 1.0 if quantization.kind == "int8" else 0.5
    return products * (stored + 2 * item)


def _saved(job: Job, shape: Shape, tokens: int) -> float:
    """34 bytes per token, hidden element and layer in half precision without checkpointing (Korthikanti et al. 2022,
    "Reducing Activation Recomputation in Large Transformer Models", equation 1 without the scores), 2 with."""
    per = 34.0 if job.checkpointing.mode == "none" else 2.0
    if job.checkpointing.mode in ("selective_op", "every_n"):
        per = 18.0
    return per * ITEM_BYTES[job.precision.compute] / 2 * tokens * shape.hidden * shape.layers
