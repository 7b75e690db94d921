"""What a plan of a denoiser does not model, refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from oomph.job.denoising import DENOISERS, DIT, FLUX, SD3, UNET
from oomph.job.families import dimensions
from oomph.job.families.build import Reader
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.compose.denoise_setup import ATTENTION

#: What is said of a pipeline's parts that are not on the GPU while training.
_AWAY = {
    "text_encoders": "Text encoders are not on the GPU while training: prompts' embeddings were made before",
    "vae": "The autoencoder is not on the GPU while training: latents were made before",
}
#: FLUX's and SD3's blocks are units as a decoder's layers are; of a UNet there are no such, and DiT runs a part of its
#: first block once more behind the last one.
_BY_BLOCK = ("none", "ddp", "fsdp2_full", "fsdp2_no_reshard", "zero1", "zero2")
_STRATEGIES = {FLUX: _BY_BLOCK, SD3: _BY_BLOCK, UNET: ("none", "ddp"), DIT: ("none", "ddp")}
_LOSSES = ("default", "eager_fp32", "eager_bf16")


def applies(job: Job) -> bool:
    """Whether a job's model is a denoiser."""
    return job.model.family in DENOISERS


def missing(job: Job) -> Iterator[str]:
    """Everything in the job that is not modelled."""
    family, parallel, precision = job.model.family, job.parallel, job.precision
    yield from _method(job)
    yield from _batch(job)
    if parallel.strategy not in _STRATEGIES[family]:
        yield f"{family} under {parallel.strategy} (modelled are {', '.join(_STRATEGIES[family])})"
    if parallel.ranks != parallel.data:
        yield "tensor, context and pipeline parallelism of a denoiser"
    if parallel.offload_parameters:
        yield "a denoiser's parameters on the host"
    if parallel.strategy.startswith(("fsdp", "zero")) and (job.method.quantization or job.evaluation.batch):
        yield f"quantised weights or validation images beside {parallel.strategy} of a denoiser"
    if job.compile:
        yield "torch.compile of a denoiser"
    if job.attention not in ATTENTION:
        yield f"{job.attention} attention of a denoiser"
    if job.loss not in _LOSSES:
        yield f"the loss {job.loss} of a denoiser"
    if "fp8" in (precision.compute, precision.weights):
        yield f"a denoiser in {precision.compute}"
    if job.checkpointing.mode not in ("none", "full") or job.checkpointing.reentrant:
        yield "other checkpoints of a denoiser than enable_gradient_checkpointing's"
    if job.activation_offload:
        yield "offloading a denoiser's activations to the host"
    if job.evaluation.generate:
        yield "text from a denoiser"


def _method(job: Job) -> Iterator[str]:
    lora, quantization = job.method.lora, job.method.quantization
    if lora is not None and lora.dora:
        yield "DoRA (its norms of merged weights)"
    if quantization is not None and quantization.kind not in ("nf4", "fp4"):
        yield f"{quantization.kind} weights of a denoiser"
    grads = job.precision.grads
    if (
        job.method.name == "full"
        and grads is not None
        and ITEM_BYTES[grads] > ITEM_BYTES[job.precision.weights]
    ):
        yield f"gradients kept in {grads} beside {job.precision.weights} weights"


def _batch(job: Job) -> Iterator[str]:
    family, side = job.model.family, job.batch.image_size
    grain = 64 if family == UNET else 16
    if side is None:
        yield "a denoiser without an image size (--set batch.image_size=1024)"
    elif side % grain:
        yield f"images of {side} pixels, which {grain} does not divide"
    elif family == SD3 and side > (most := 16 * dimensions(job.model)["positions"]):
        yield f"images of {side} pixels, beyond its {most} pixels of positions"
    elif family == DIT and (side // 16) ** 2 != dimensions(job.model)["patches"]:
        own = 16 * isqrt(dimensions(job.model)["patches"])
        yield f"images of {side} pixels, for which a DiT of {own} pixels makes positions anew"
    if family == DIT and Reader(job.model).switch("pipeline.text_encoders"):
        yield "text encoders beside a DiT, which reads no text"
    if family != DIT and not job.batch.sequence:
        yield "a denoiser without text (--seq)"


def assumptions(job: Job) -> tuple[str, ...]:
    """What a plan of a denoiser takes for granted."""
    if not applies(job):
        return ()
    read = Reader(job.model)
    found = ["Images are square. Scratch memory of cuDNN and of bitsandbytes is left out."]
    if job.model.family == FLUX and "fp16" in (job.precision.weights, job.precision.compute):
        found.append(
            "What FLUX's blocks clip in fp16 is left out: without checkpointing, a tensor of its tokens for each block."
        )
    if not job.evaluation.batch:
        found.append(
            "Validation images are not planned: nothing asks for them (--eval-batch 1 plans one at a time)."
        )
    for key, words in _AWAY.items():
        if key == "text_encoders" and job.model.family == DIT:
            continue
        if not read.switch(f"pipeline.{key}"):
            found.append(f"{words} (--set model.config.pipeline.{key}=true where it is otherwise).")
    return tuple(found)
