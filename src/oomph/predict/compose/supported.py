"""What a plan does not model, refused by name: nothing is approximated in silence."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.errors import UsageError
from oomph.job.families import dimensions
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.compose import (
    denoise_supported,
    expert_parallel,
    experts,
    masks,
    preference_supported,
    stacks_supported,
    targets,
)
from oomph.predict.compose.choice import task_of_class
from oomph.predict.compose.setup_chosen import rings
from oomph.predict.compose.stacks import is_stacked
from oomph.predict.frameworks.versions import below

#: Families whose layers tensor parallelism divides by heads and by the width of the feed-forward network alone.
#: (transformers' plans of OLMo 2 and Phi-3 gather what their weights make.)
_DIVIDED = frozenset(
    (
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "granite",
        "gemma",
        "gemma2",
        "gemma3_text",
        "olmo",
    )
)

#: Families that several heads are usual for: their classes for masked language models and for classifiers.
_CLASSES = {
    "bert": ("BertForMaskedLM", "BertForSequenceClassification"),
    "roberta": ("RobertaForMaskedLM", "RobertaForSequenceClassification"),
    "xlm-roberta": ("XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertForSequenceClassification"),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertForSequenceClassification"),
    "deberta-v2": ("DebertaV2ForMaskedLM", "DebertaV2ForSequenceClassification"),
}
_TASKS = {
    "masked_lm": "masked language modelling",
    "sequence_classification": "classification of sequences",
    "token_classification": "classification of tokens",
}
#: Families that read images.
_IMAGES = frozenset(("vit",))

#: Whose models are divided by torch.distributed.tensor.parallel with the sequence, as torchtitan does; "": a script's.
_SEQUENCE_PARALLEL = frozenset(("", "pytorch", "torchtitan", "torchtune"))


def check(job: Job) -> None:
    """Raises UsageError, beginning with "unsupported:", that names everything in the job that is not modelled."""
    found = list(_missing(job))
    if found:
        raise UsageError(
            f"unsupported: {'; '.join(found)}. `oomph trace` runs the training script itself and needs no model of it."
        )


def _missing(job: Job) -> Iterator[str]:
    if denoise_supported.applies(job):
        yield from denoise_supported.missing(job)
        return
    lora, quantization, parallel = job.method.lora, job.method.quantization, job.parallel
    if lora is not None and lora.dora:
        yield from _dora(job)
    if quantization is not None and quantization.kind == "int8":
        yield from _int8(job)
    grads, weights = job.precision.grads, job.precision.weights
    if job.method.name == "full" and grads is not None and ITEM_BYTES[grads] > ITEM_BYTES[weights]:
        yield f"gradients kept in {grads} beside {weights} weights"
    if job.activation_offload and job.checkpointing.mode != "full":
        yield "offloading activations to the host without checkpointing every layer"
    yield from targets.missing(job)
    yield from experts.missing(job)
    yield from preference_supported.missing(job)
    if parallel.pipeline > 1:
        yield from _pipeline(job)
    yield from expert_parallel.missing(job)
    if parallel.tensor > 1:
        yield from _tensor_parallel(job)
    if job.evaluation.generate and job.model.family in (*_CLASSES, *_IMAGES):
        yield f"generation by an encoder ({job.model.family})"
    if is_stacked(job.model.family):
        yield from stacks_supported.missing(job)
    if job.model.family in _IMAGES:
        yield from _images(job)
    elif job.batch.image_size is not None and not is_stacked(job.model.family):
        yield f"images with the family {job.model.family}"
    elif job.batch.sequence is None:
        yield "a batch without a sequence length"
    yield from masks.missing(job)


def _dora(job: Job) -> Iterator[str]:
    """PEFT's code for DoRA, in one process or with whole parameters in forward."""
    name = job.framework.name.lower()
    if name in ("torchtune", "litgpt", "torchtitan"):
        yield f"DoRA under {job.framework.name}"
    if job.parallel.tensor > 1:
        yield "DoRA beside tensor parallelism"
    if job.method.quantization is not None and job.method.quantization.kind == "gptq4":
        yield "DoRA on GPTQ's layers (PEFT has none)"
    again = below(job.framework, "peft", 0, 14) or (
        job.method.lora is not None and job.method.lora.dropout > 0
    )
    if job.model.family == "gpt2" and again:
        yield "DoRA with dropout on GPT-2's Conv1D (PEFT leaves a gradient of each adapted weight)"


def _int8(job: Job) -> Iterator[str]:
    """bitsandbytes' code from 0.45 on, under PEFT's adapters."""
    name = job.framework.name.lower()
    if below(job.framework, "bitsandbytes", 0, 45):
        yield "LLM.int8() of bitsandbytes before 0.45 (weights in other layouts)"
    if job.method.lora is None or name in ("torchtune", "litgpt", "torchtitan", "lightning", "fabric"):
        yield f"LLM.int8() under {job.framework.name or 'a framework'} without PEFT's adapters"
    if job.method.lora is not None and job.method.lora.dora:
        yield "DoRA on LLM.int8()'s layers"
    if job.parallel.strategy.startswith(("fsdp", "zero")):
        yield f"LLM.int8() under {job.parallel.strategy}"
    if job.parallel.tensor > 1:
        yield "LLM.int8() beside tensor parallelism"
    if job.precision.weights == "fp32" and not job.precision.autocast:
        yield "LLM.int8() in a model of fp32"


def _images(job: Job) -> Iterator[str]:
    """An image encoder's sequence is what its images are cut into."""
    dims = dimensions(job.model)
    side, patch = dims["image"], dims["patch"]
    if job.batch.image_size not in (None, side):
        yield f"images of {job.batch.image_size} pixels with positions for {side} (they would be interpolated)"
    if side % patch or dims["patch_width"] != patch or (side // patch) ** 2 != dims["patches"]:
        yield "images or patches that are not square"
    if job.parallel.context > 1:
        yield "context parallelism of an image's patches"


def _pipeline(job: Job) -> Iterator[str]:
    parallel = job.parallel
    if job.framework.name.lower() != "torchtitan":
        yield f"pipeline parallelism under {job.framework.name or 'a framework that is not named'}"
    if parallel.pipeline_schedule == "zero_bubble":
        yield "the zero-bubble pipeline schedules"
    if parallel.strategy not in ("none", "ddp", "fsdp2_full", "fsdp2_no_reshard"):
        yield f"{parallel.strategy} within pipeline stages"
    if job.method.name != "full" or job.method.frozen:
        yield "frozen parameters within pipeline stages"
    if job.evaluation.batch or job.evaluation.generate:
        yield "evaluation in a pipeline"


def _tensor_parallel(job: Job) -> Iterator[str]:
    parallel, name = job.parallel, job.framework.name.lower()
    if job.model.family not in _DIVIDED:
        yield f"tensor parallelism of the family {job.model.family}"
    if parallel.sequence_parallel:
        if name not in _SEQUENCE_PARALLEL:
            yield f"sequence parallelism under {job.framework.name}"
        if job.method.lora is not None:
            yield "adapters beside sequence parallelism"
        if (job.batch.sequence or 0) // parallel.context % parallel.tensor:
            yield f"a sequence that {parallel.tensor} tensor-parallel ranks do not divide evenly"
    if job.loss == "fused_linear_ce":
        yield "a fused output layer and loss beside tensor parallelism"
    if job.method.lora is not None and name in ("torchtitan", "torchtune", "litgpt"):
        yield f"{job.framework.name}'s adapters beside tensor parallelism"


def _of_encoders(job: Job) -> Iterator[str]:
    """What an encoder is trained for decides its head and its loss."""
    classes = _CLASSES.get(job.model.family)
    if classes is None:
        return
    task = task_of_class(job.model) or "masked_lm"
    other = classes[1] if task == "masked_lm" else classes[0]
    yield (
        f"{job.model.family} is trained for {_TASKS.get(task, task)}; for another head name its class "
        f"(--set model.config.architectures={other})."
    )


def _of_generation(job: Job) -> Iterator[str]:
    """What is taken for granted of how tokens are chosen."""
    if job.evaluation.generate:
        yield (
            "Generation is planned for all samples of a batch with prompts as long as the evaluation's sequences, all "
            "new tokens, a cache that grows (no static one), and tokens chosen without top-k or top-p."
        )


def assumptions(job: Job) -> tuple[str, ...]:
    """What a plan takes for granted where the job asks for something that is modelled in part."""
    found = [*_of_encoders(job), *preference_supported.assumptions(job)]
    if is_stacked(job.model.family):
        found += stacks_supported.assumptions(job)
    found += [
        *denoise_supported.assumptions(job),
        *experts.assumptions(job),
        *expert_parallel.assumptions(job),
    ]
    if job.precision.compute == "fp8":
        found.append(
            "fp8 products are played as bf16 ones: copies in fp8, which are half as large, are left out."
        )
    if job.method.quantization is not None and job.method.quantization.kind == "int8":
        found.append(
            "LLM.int8() is planned without outliers; the interval reaches to one input column in 64 with some."
        )
    if job.attention == "flex":
        found.append("flex_attention is played as flash attention.")
    if job.attention == "flash_attention_3":
        found.append("FlashAttention 3 is played as FlashAttention 2.")
    if job.parallel.context > 1:
        found.append(
            "Context parallelism is taken to be torch's ring attention, with its defaults."
            if rings(job) and not job.attention.startswith(("flash_attention", "flex", "eager"))
            else "Context parallelism divides the sequence; buffers of keys and values in flight are left out."
        )
    if job.parallel.strategy.startswith("fsdp1") and not job.parallel.limit_all_gathers:
        found.append(
            "Without limit_all_gathers the host gathers as many units ahead as it is faster than the GPU: none of them "
            "is planned, and they come on top."
        )
    found += _of_generation(job)
    found += masks.assumptions(job)
    if job.compile and job.checkpointing.mode != "none":
        found.append(
            "Compiled layers that are recomputed: between what a compiled layer and a plain one hold."
        )
    if job.compile and job.method.lora is not None:
        found.append("torch.compile is left out for layers with PEFT's adapters.")
    return tuple(found)
