"""What stands in for what nobody said: of a job that was described by a model's name and a few flags.

A job that was read from a framework's own files has that framework's defaults (`job.importers`); these are for others.
Each choice is the usual one, and where several are usual, one that does not need less memory; each is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Set

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.hardware.names import gpu
from oomph.job import denoising
from oomph.job.families import architecture, dimensions, major_of
from oomph.job.model import DType, Job, Lora, Precision

#: bf16 needs Ampere or later (CUDA programming guide: arithmetic of __nv_bfloat16 from compute capability 8.0).
_BF16 = (8, 0)

#: What PEFT adapts where nobody says: query and value projections, by what a family calls them
#: (peft/utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING). Other families are as llama.
_TARGETS = {
    "t5": ("q", "v"),
    "mt5": ("q", "v"),
    "gpt2": ("c_attn",),
    "gpt_bigcode": ("c_attn",),
    "bloom": ("query_key_value",),
    "falcon": ("query_key_value",),
    "gpt_neox": ("query_key_value",),
    "bert": ("query", "value"),
    "roberta": ("query", "value"),
    "xlm-roberta": ("query", "value"),
    "deberta-v2": ("query_proj", "value_proj"),
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
}
#: Others of that table, all as llama.
_AS_LLAMA = frozenset(
    (
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gptj",
        "opt",
        "bart",
        "stablelm",
    )
)
#: Families that the table does not have: their query and value projections, where they are called otherwise.
_BY_HAND = {"phi3": ("qkv_proj",), "distilbert": ("q_lin", "v_lin"), "modernbert": ("Wqkv",)}

_HALF: tuple[DType, ...] = ("bf16", "fp16")

Step = Callable[[Job, Collection[str]], tuple[Job, str]]


def with_defaults(job: Job, said: Collection[str]) -> tuple[Job, tuple[str, ...]]:
    """The job with a choice for each part that is not in `said` (paths of fields, "batch.micro"; a part stands for all
    of its fields), and a sentence for each choice."""
    sentences = []
    for step in (_strategy, _targets, _precision, _batch, _sequence, denoising.targets):
        job, sentence = step(job, said)
        if sentence:
            sentences.append(sentence)
    return job, tuple(sentences)


def _is_said(path: str, said: Collection[str]) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in said)


def _strategy(job: Job, said: Collection[str]) -> tuple[Job, str]:
    """Several GPUs without a word on how: each has a copy of the model."""
    parallel = job.parallel
    if _is_said("parallel.strategy", said) or parallel.data <= 1 or parallel.strategy != "none":
        return job, ""
    job = replace(job, parallel=replace(parallel, strategy="ddp"))
    return (
        job,
        f"DDP over {parallel.data} GPUs: nothing says how they share the work (--fsdp, --zero, --gpus 1).",
    )


def _targets(job: Job, said: Collection[str]) -> tuple[Job, str]:
    """Which modules have adapters: as PEFT chooses them for the family."""
    lora = job.method.lora
    if job.model.family in denoising.DENOISERS:
        return job, ""  # after the precision, which adapters follow
    if lora is None or "method.lora.targets" in said or lora.targets != Lora().targets:
        return job, ""
    family = job.model.family
    targets = _TARGETS.get(family) or _BY_HAND.get(family, lora.targets)
    job = replace(job, method=replace(job.method, lora=replace(lora, targets=targets)))
    if family in _TARGETS or family in _AS_LLAMA:
        return job, f"Adapters on {', '.join(targets)}, as PEFT's: nothing says where (--lora-targets)."
    return job, (
        f"Adapters on {', '.join(targets)}: nothing says where (--lora-targets), and PEFT has no choice for {family}."
    )


def _precision(job: Job, said: Collection[str]) -> tuple[Job, str]:
    """fp32 weights under autocast for all that trains whole; half-precision weights beside adapters, under autocast
    where prepare_model_for_kbit_training has cast to fp32 what is not quantised. ZeRO keeps its own fp32 copy."""
    if _is_said("precision", said):
        return job, ""
    half: DType = "bf16" if _has_bf16(job) else "fp16"
    why = "" if half == "bf16" else f" ({job.hardware.gpu} has no bf16)"
    quantization = job.method.quantization
    prepared = quantization is not None and quantization.prepared
    if prepared and job.model.family not in denoising.DENOISERS:
        chosen = Precision(weights=half, compute=half, autocast=True)
        words = f"{half} weights beside the adapters, {half} autocast"
    elif job.method.name != "full":
        chosen, words = Precision(weights=half, compute=half), f"{half} weights beside the adapters"
    elif job.parallel.strategy.startswith("zero"):
        chosen = Precision(weights=half, compute=half, master=True)
        words = f"{half} weights with DeepSpeed's copy in fp32"
    else:
        chosen = Precision(weights="fp32", compute=half, autocast=True)
        words = f"fp32 weights, {half} autocast"
    own = {name for name in Precision.__struct_fields__ if f"precision.{name}" in said}
    if own:
        return _precision_in_part(job, chosen, own)
    return replace(job, precision=chosen), f"Precision: {words}{why}; nothing says it (--precision)."


def _precision_in_part(job: Job, usual: Precision, own: Set[str]) -> tuple[Job, str]:
    """What was said of the precision by single fields stays, and the rest follows from it: products are in the type of
    half-precision weights, and autocast is on over fp32 weights where products are in half precision."""
    chosen = replace(usual, **{name: getattr(job.precision, name) for name in own})
    if "weights" in own and "compute" not in own and chosen.weights in _HALF:
        chosen = replace(chosen, compute=chosen.weights)
    if "master" not in own and chosen.weights == "fp32":
        chosen = replace(chosen, master=False)
    if "autocast" not in own and own & {"weights", "compute", "master"}:
        over = chosen.weights == "fp32" and chosen.compute in _HALF and not chosen.master
        chosen = replace(chosen, autocast=over)
    if own >= {"weights", "compute", "autocast"}:
        return replace(job, precision=chosen), ""
    autocast = " under autocast" if chosen.autocast else ""
    filled = f"{chosen.weights} weights, {chosen.compute} products{autocast}"
    return replace(
        job, precision=chosen
    ), f"Precision: {filled}, with what is not said of it (--precision) filled in."


def _has_bf16(job: Job) -> bool:
    if not job.hardware.gpu:
        return True
    try:
        found = gpu(job.hardware.gpu)
    except UsageError:  # the check of the job says so
        return True
    return not found.is_cuda or found.capability >= _BF16


def _batch(job: Job, said: Collection[str]) -> tuple[Job, str]:
    if _is_said("batch.micro", said):
        return job, ""
    return job, f"Micro-batch of {job.batch.micro}: nothing says it (--batch)."


def _reads_text(job: Job) -> bool:
    """Whether the model has a vocabulary; true for a family that is not known."""
    try:
        return "vocab" in dimensions(job.model)
    except UsageError:  # the plan refuses it by name
        return True


def _positions(job: Job) -> int | None:
    """The most tokens that the model takes: as many positions as it has learned, or as its configuration names."""
    try:
        learned = architecture(job.model, major_of(job.framework)).learned_positions
    except UsageError:  # the plan refuses it by name
        learned = None
    named = job.model.get("max_position_embeddings", job.model.get("n_positions"))
    return learned or (named if isinstance(named, int) else None)


def _sequence(job: Job, said: Collection[str]) -> tuple[Job, str]:
    length = job.batch.sequence
    if job.model.family in denoising.DENOISERS:
        return denoising.sizes(job, said)
    if _is_said("batch.sequence", said) or length is None:
        return job, ""
    image = job.model.get("image_size")
    if isinstance(image, int) and not _reads_text(job):
        job = replace(job, batch=replace(job.batch, sequence=None, image_size=job.batch.image_size or image))
        return job, ""  # as large as the configuration says
    positions = _positions(job)
    if positions is not None and 0 < positions < length:
        length = positions
        job = replace(job, batch=replace(job.batch, sequence=length))
    return job, f"Sequences of {length:,} tokens: nothing says it (--seq)."
