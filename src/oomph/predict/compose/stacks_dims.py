"""What decides which program of several stacks a job runs: its dimensions, its task, its form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.job.families import dimensions
from oomph.job.families.build import Reader
from oomph.job.model import Job
from oomph.predict.compose.setup import Setup

if TYPE_CHECKING:
    from oomph.predict.compose.stacks import Stacks

#: Tokens of a target where nothing says how many: max_target_length of transformers' run_summarization.py and
#: run_translation.py.
TARGET = 128
#: What a family is trained for where its class does not say.
_TASKS = {
    "t5": "seq2seq_lm",
    "bart": "seq2seq_lm",
    "clip": "contrastive",
    "siglip": "contrastive",
    "llava": "causal_lm",
    "deberta-v2": "masked_lm",
}
#: The same by how classes' names end.
_BY_CLASS = (
    ("ForSequenceClassification", "sequence_classification"),
    ("ForTokenClassification", "token_classification"),
    ("ForMaskedLM", "masked_lm"),
    ("ForConditionalGeneration", ""),
    ("WithLMHeadModel", ""),
    # One of two towers alone; no head.
    ("VisionModel", "vision_model"),
    ("TextModel", "text_model"),
    ("DebertaV2Model", "bare_model"),
    ("Model", ""),
)


def dims_of(setup: Setup) -> dict[str, int]:
    """Dimensions of the model and the batch on this rank; `t`: tokens of a target."""
    job = setup.job
    dims = dict(dimensions(job.model))
    dims["b"] = job.batch.micro
    dims["s"] = job.batch.sequence or 1
    dims["t"] = job.batch.target or min(TARGET, dims["s"])
    read = Reader(job.model)
    if job.model.family == "t5":
        dims["buckets"] = read.optional("relative_attention_num_buckets") or 32
    if job.model.family == "deberta-v2":
        dims["buckets"] = read.optional("position_buckets", least=-1) or 0
        dims["classes"] = read.labels
    if "vision_patches" in dims:
        dims["image"], dims["patch"] = dims["vision_image"], dims["vision_patch"]
        dims["side"], dims["patches"] = dims["image"] // dims["patch"], dims["vision_patches"]
        dims["v"] = dims["patches"] + (0 if job.model.family == "siglip" else 1)
    if dims.get("kv_heads"):
        dims["groups"] = dims["heads"] // dims["kv_heads"]
    if job.method.lora is not None:
        dims["rank"] = job.method.lora.rank
    return dims


def task_of_job(job: Job) -> str:
    """What the model is trained for, as programs name it; the class's name where it is for something else."""
    usual, name = _TASKS[job.model.family], Reader(job.model).architecture
    if not name:
        return usual
    return next((task or usual for end, task in _BY_CLASS if name.endswith(end)), name)


def form_of(setup: Setup) -> str:
    """Which of the family's forms the configuration is; "other" where it was not recorded."""
    model = setup.job.model
    if model.family != "t5":
        return ""
    gated = str(model.get("feed_forward_proj", "relu")).startswith("gated-")
    scaled = model.get("tie_word_embeddings") is not False
    return "gated" if gated and not scaled else "" if scaled and not gated else "other"


def attention_of(stacks: Stacks) -> str:
    """The variant's attention."""
    name = stacks.setup.job.attention
    recorded = {each.attention for each in stacks.file.variants}
    if name in ("flash_attention_2", "flash_attention_3"):
        return "flash_attention_2" if stacks.setup.precision != "fp32" else "sdpa"
    if name == "sdpa_math":
        return name
    return "eager" if name == "eager" or "sdpa" not in recorded else "sdpa"
