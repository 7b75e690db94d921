"""What a plan of a model with several stacks does not model, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.job.model import Job
from oomph.predict.compose.stacks_dims import TARGET

_SEQ2SEQ = frozenset(("t5", "bart"))


def missing(job: Job) -> Iterator[str]:
    """Everything in the job that is not modelled, by name."""
    family, parallel, method = job.model.family, job.parallel, job.method
    if job.compile:
        yield f"torch.compile of the family {family}"
    if parallel.context > 1:
        yield f"context parallelism of the family {family}"
    if parallel.pipeline > 1:
        yield f"pipeline parallelism of the family {family}"
    if parallel.units == "blocks_and_embeddings":
        yield f"embeddings as FSDP units of the family {family}"
    if job.loss not in ("default", "eager_fp32"):
        yield f"the loss {job.loss} with the family {family}"
    if job.checkpointing.mode == "selective_op":
        yield f"checkpoints that keep operators' results with the family {family}"
    if job.activation_offload:
        yield f"activations offloaded to the host with the family {family}"
    if job.evaluation.generate:
        yield f"generation by the family {family}"
    if job.evaluation.keep_logits:
        yield f"predictions that evaluation keeps, of the family {family}"
    if method.lora is not None and method.lora.dora:
        yield f"DoRA with the family {family}"
    if family == "t5":
        if method.quantization is not None:
            yield "quantised T5 (the second product of its feed-forward network stays in fp32)"
        if job.precision.weights == "fp16" and not job.precision.autocast:
            yield "T5 with fp16 weights (it clamps every hidden state)"


def assumptions(job: Job) -> Iterator[str]:
    """What is taken for granted."""
    family = job.model.family
    if family in _SEQ2SEQ:
        if job.batch.target is None:
            yield (
                f"Targets of {min(TARGET, job.batch.sequence or TARGET)} tokens, the most in transformers' examples: "
                "nothing says it (--set batch.target)."
            )
