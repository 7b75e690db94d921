"""What a plan of a model with several stacks does not model, and what it takes for granted."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.job.families import dimensions
from oomph.job.families.build import Reader
from oomph.job.model import Job
from oomph.predict.compose.stacks_dims import TARGET

_SEQ2SEQ = frozenset(("t5", "bart"))
_TOWERS = frozenset(("clip", "siglip"))
#: What was recorded: the defaults of the classes' configurations.
_ACTIVATIONS = {
    "deberta-v2": {"hidden_act": "gelu", "pooler_hidden_act": "gelu"},
    "clip": {"text_config.hidden_act": "quick_gelu", "vision_config.hidden_act": "quick_gelu"},
    "siglip": {
        "text_config.hidden_act": "gelu_pytorch_tanh",
        "vision_config.hidden_act": "gelu_pytorch_tanh",
    },
    "llava": {
        "text_config.hidden_act": "silu",
        "vision_config.hidden_act": "quick_gelu",
        "projector_hidden_act": "gelu",
    },
}


def missing(job: Job) -> Iterator[str]:
    """Everything in the job that is not modelled, by name."""
    family, parallel, method = job.model.family, job.parallel, job.method
    if job.compile:
        yield f"torch.compile of the family {family}"
    if job.objective.name != "default":
        yield f"the objective {job.objective.name} with the family {family}"
    if job.batch.packed:
        yield f"packed samples with the family {family}"
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
    yield from _switches(job)
    if family == "deberta-v2":
        yield from _deberta(job)
    if family == "llava":
        yield from _llava(job)
    if method.quantization is not None and parallel.strategy not in ("none", "ddp"):
        yield f"quantised weights in shards with the family {family}"
    if method.quantization is not None and (
        family != "llava" or method.quantization.kind not in ("nf4", "fp4")
    ):
        yield f"weights quantised as {method.quantization.kind} of the family {family}"
    if family == "t5":
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
    if dims["vision_patch_width"] != patch or (side // patch) ** 2 != dims["vision_patches"]:
        yield "images or patches that are not square"


def _switches(job: Job) -> Iterator[str]:
    """Activation functions and dropout that were not recorded."""
    read = Reader(job.model)
    for key, recorded in _ACTIVATIONS.get(job.model.family, {}).items():
        found = read.raw(key)
        if found not in (None, recorded):
            yield f"{job.model.family} with {found} ({key}) in place of {recorded}"
    for part in ("text_config.", "vision_config."):
        if read.raw(f"{part}attention_dropout"):
            yield f"dropout in the family {job.model.family}"


def _llava(job: Job) -> Iterator[str]:
    """What of LLaVA's configuration is not LLaVA 1.5's: CLIP's last layer but one, without its class, before Llama."""
    read, dims = Reader(job.model), dimensions(job.model)
    for key, kind in (("text_config.model_type", "llama"), ("vision_config.model_type", "clip_vision_model")):
        found = read.raw(key)
        if found not in (None, kind):
            yield f"LLaVA with {found} in place of {kind}"
    for key, recorded in (("vision_feature_layer", -2), ("vision_feature_select_strategy", "default")):
        found = read.raw(key)
        if found not in (None, recorded):
            yield f"LLaVA with {key} {found}"
    if read.raw("multimodal_projector_bias") is False:
        yield "LLaVA with a projector without biases"
    length = min(job.batch.sequence or 0, job.evaluation.sequence or job.batch.sequence or 0)
    if length and length <= dims["vision_patches"]:
        yield f"sequences of {length} tokens with images that take {dims['vision_patches']}"


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
    if family == "llava":
        dims = dimensions(job.model)
        yield (
            f"One image of {dims['vision_image']} pixels in each sequence: {dims['vision_patches']} of its tokens."
        )
    if family in _SEQ2SEQ:
        if job.batch.target is None:
            yield (
                f"Targets of {min(TARGET, job.batch.sequence or TARGET)} tokens, the most in transformers' examples: "
                "nothing says it (--set batch.target)."
            )
