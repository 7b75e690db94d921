"""What a plan of a model with several stacks does not model, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.job.families import dimensions
from oomph.job.families.build import Reader
from oomph.job.model import Job
from oomph.predict.compose.stacks_dims import TARGET

_SEQ2SEQ = frozenset(("t5", "bart"))
_TOWERS = frozenset(("clip", "siglip"))


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
    yield from _images(job)
    if family == "deberta-v2":
        yield from _deberta(job)
    if family == "t5":
        if method.quantization is not None:
            yield "quantised T5 (the second product of its feed-forward network stays in fp32)"
        if job.precision.weights == "fp16" and not job.precision.autocast:
            yield "T5 with fp16 weights (it clamps every hidden state)"


def _images(job: Job) -> Iterator[str]:
    """What a family that reads images reads; another reads none."""
    dims, image = dimensions(job.model), job.batch.image_size
    if "vision_patches" not in dims:
        if image is not None:
            yield f"images with the family {job.model.family}"
        return
    side, patch = dims["vision_image"], dims["vision_patch"]
    if image not in (None, side):
        yield f"images of {image} pixels with positions for {side} (they would be interpolated)"
    if side % patch or dims["vision_patch_width"] != patch or (side // patch) ** 2 != dims["vision_patches"]:
        yield "images or patches that are not square"


def _deberta(job: Job) -> Iterator[str]:
    """What of DeBERTa's configuration was not recorded."""
    read = Reader(job.model)
    kinds = read.raw("pos_att_type")
    both = kinds is None or (isinstance(kinds, tuple) and set(kinds) == {"p2c", "c2p"}) or kinds == "p2c|c2p"
    buckets = read.optional("position_buckets", least=-1) or 0
    if not read.switch("relative_attention") or not both or buckets <= 0:
        yield "DeBERTa whose attention is not that of v2 and v3 (relative positions in buckets, both ways)"
    if read.switch("position_biased_input"):
        yield "DeBERTa with absolute positions"
    if "layer_norm" not in read.text("norm_rel_ebd"):
        yield "DeBERTa whose relative positions are not normalised"
    if read.optional("type_vocab_size", least=0):
        yield "DeBERTa with kinds of tokens"


def assumptions(job: Job) -> Iterator[str]:
    """What is taken for granted."""
    family = job.model.family
    if family in _TOWERS:
        yield (
            f"Texts and as many images of {dimensions(job.model)['vision_image']} pixels, with the contrastive loss of "
            "the model's class (return_loss) over one rank's batch."
        )
    if family in _SEQ2SEQ:
        if job.batch.target is None:
            yield (
                f"Targets of {min(TARGET, job.batch.sequence or TARGET)} tokens, the most in transformers' examples: "
                "nothing says it (--set batch.target)."
            )
