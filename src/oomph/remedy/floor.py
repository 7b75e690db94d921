"""What a job holds between steps at the very least: weights and optimizer states.

A job whose floor does not fit needs no closer look.
"""

from __future__ import annotations

from oomph.job.model import ITEM_BYTES, Job
from oomph.remedy.changes.cards import per_node
from oomph.remedy.changes.shard import LEVEL
from oomph.remedy.work import shape_of, trainable

#: States of a parameter; of other optimizers nothing is counted.
_STATES = {"adamw": 2, "adam": 2, "lion": 1}
#: Bytes of a weight in 4 bits with its scales, at the least (GPTQ in groups of 128, nf4 quantised twice: 0.516).
_QUANTIZED = {"nf4": 0.51, "fp4": 0.51, "gptq4": 0.51, "int8": 1.0}


def floor_bytes(job: Job) -> int:
    """A lower bound of the highest allocated bytes of one rank: never more than the prediction. Raises UsageError for a
    model of an unknown family."""
    shape, parallel = shape_of(job.model), job.parallel
    if parallel.offload_parameters:
        return 0
    level = LEVEL[parallel.strategy]
    ranks = parallel.data * parallel.context
    if parallel.strategy.endswith("hybrid_shard"):
        ranks = min(ranks, parallel.shard_size or per_node(job))
    split = parallel.tensor * parallel.pipeline
    item = ITEM_BYTES[job.precision.weights]
    quantization = job.method.quantization
    if quantization is not None:
        item = min(item, _QUANTIZED[quantization.kind])
    # Embeddings and norms may be whole on every rank of tensor parallelism: that is more, and the floor leaves it out.
    spread = parallel.strategy == "zero3" or (parallel.strategy.startswith("fsdp") and level > 0)
    weights = shape.total * item / split / (ranks if spread else 1)
    states = 0.0
    if job.optimizer.offload == "none" and job.optimizer.impl != "bnb_paged":
        each = ITEM_BYTES[job.optimizer.state] if job.optimizer.state else min(item, 2.0)
        states = trainable(job) * each * _STATES.get(job.optimizer.name, 0) / split / (ranks if level else 1)
    return int(weights + states)
