"""What stands in for what nobody said of a denoiser's job: as diffusers' training scripts have it."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from oomph.job.model import Job, Lora

FLUX, UNET, DIT = "FluxTransformer2DModel", "UNet2DConditionModel", "DiTTransformer2DModel"
SD3 = "SD3Transformer2DModel"
DENOISERS = frozenset((FLUX, UNET, DIT, SD3))
_ATTENTION = ("to_k", "to_q", "to_v", "to_out.0")
#: examples/dreambooth/train_dreambooth_lora_flux.py (target_modules), train_dreambooth_lora_sd3.py,
#: examples/text_to_image/train_text_to_image_lora_sdxl.py.
_TARGETS = {
    FLUX: (
        "attn.to_k",
        "attn.to_q",
        "attn.to_v",
        "attn.to_out.0",
        "attn.add_k_proj",
        "attn.add_q_proj",
        "attn.add_v_proj",
        "attn.to_add_out",
        "ff.net.0.proj",
        "ff.net.2",
        "ff_context.net.0.proj",
        "ff_context.net.2",
    ),
    SD3: (
        "attn.add_k_proj",
        "attn.add_q_proj",
        "attn.add_v_proj",
        "attn.to_add_out",
        "attn.to_k",
        "attn.to_out.0",
        "attn.to_q",
        "attn.to_v",
    ),
}
#: Text tokens: max_sequence_length of FLUX's script, CLIP's context of Stable Diffusion's; of SD3's both.
_TOKENS = {FLUX: 512, UNET: 77, SD3: 77 + 77}
_HALF = ("bf16", "fp16")


def targets(job: Job, said: Collection[str]) -> tuple[Job, str]:
    """Where adapters are, and their type: PEFT makes those that are injected in that of the layer that they adapt, or
    that in which a quantised layer computes (tuners_utils.py, _move_adapter_to_device_of_base_layer). Beside fp16 the
    scripts cast them to fp32 (training_utils.py, cast_training_params)."""
    lora = job.method.lora
    if lora is None or job.model.family not in DENOISERS:
        return job, ""
    words = []
    if "method.lora.targets" not in said and lora.targets == Lora().targets:
        lora = replace(lora, targets=_TARGETS.get(job.model.family, _ATTENTION))
        words.append(
            f"Adapters on {', '.join(lora.targets)}, as diffusers' script has them (--lora-targets)."
        )
    weights = job.precision.weights
    if not {"method.lora", "method.lora.dtype"} & set(said) and weights in _HALF:
        lora = replace(lora, dtype="bf16" if weights == "bf16" else "fp32")
        why = "as the layers that they adapt" if weights == "bf16" else "as the scripts have them beside fp16"
        words.append(f"Adapters are {lora.dtype}, {why} (method.lora.dtype).")
    return replace(job, method=replace(job.method, lora=lora)), " ".join(words)


def sizes(job: Job, said: Collection[str]) -> tuple[Job, str]:
    """Pixels of an image's side, and tokens of its prompt."""
    family, batch, words = job.model.family, job.batch, []
    if family not in DENOISERS:
        return job, ""
    if batch.image_size is None and "batch.image_size" not in said:
        sample = job.model.get("sample_size")
        sample = 32 if family == DIT and sample is None else sample  # the class's default
        side = 1024 if family == FLUX or not isinstance(sample, int) else 8 * sample
        batch = replace(batch, image_size=side)
        words.append(f"Images of {side} pixels: nothing says it (--set batch.image_size=512).")
    if family in _TOKENS and not {"batch", "batch.sequence"} & set(said):
        batch = replace(batch, sequence=_TOKENS[family])
        words.append(f"Prompts of {_TOKENS[family]} tokens, as diffusers' script has them (--seq).")
    if family == DIT:
        batch = replace(batch, sequence=None)
    return replace(job, batch=batch), " ".join(words)
