"""Whose code trains: which of the two scripts a job gets, or why it gets none."""

from __future__ import annotations

from oomph.job.model import Job

#: transformers' Trainer.
_TRAINER = frozenset(("transformers", "hf", "huggingface"))
#: Trainers that are transformers' own with patches; the value names what a script leaves out.
_ON_TRAINER = {
    "axolotl": "axolotl's own patches, loss and packing",
    "llama-factory": "LLaMA-Factory's own patches and adapters",
    "peft": "",
}
#: TRL's SFTTrainer, which is transformers' with a loss and a collator of its own.
_SFT = "trl"
#: Since then the tokenizer is called processing_class (trl/trainer/sft_trainer.py).
_SFT_FROM = (0, 12)
#: A loop of the user's own whose model and optimizer accelerate has prepared.
_ACCELERATE = "accelerate"
_LOOP = frozenset(("", "pytorch", "peft-method-comparison", _ACCELERATE))

TRAINER, LOOP = "trainer", "loop"


def kind_of(job: Job) -> str:
    """`TRAINER`, `LOOP`, or "" where the framework's code cannot be written in one short script."""
    name = job.framework.name.lower()
    if name in _LOOP:
        return LOOP
    return TRAINER if name in _TRAINER or name in _ON_TRAINER or name == _SFT else ""


def is_accelerated(job: Job) -> bool:
    """Whether accelerate prepares model and optimizer of a loop: then it casts, scales and shards."""
    return job.framework.name.lower() == _ACCELERATE


def is_sft(job: Job) -> bool:
    """Whether it is TRL's SFTTrainer."""
    return job.framework.name.lower() == _SFT


def is_old_sft(job: Job) -> bool:
    """Whether it is one that takes other arguments."""
    version = job.framework.version("trl")
    return is_sft(job) and version is not None and version < _SFT_FROM


def left_out_of(job: Job) -> str:
    """What the framework has beside Trainer; "" for nothing."""
    return _ON_TRAINER.get(job.framework.name.lower(), "")
