"""Which code a job runs: by the framework's name and versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from oomph.job.denoising import DENOISERS
from oomph.job.model import Job
from oomph.predict.frameworks import diffusers, lightning, pytorch, transformers
from oomph.predict.frameworks.code import Code

#: Names as jobs give them, lower case, and whose code that is.
_NAMES: dict[str, str] = {
    "": "transformers",
    "accelerate": "transformers",
    "axolotl": "transformers",
    "answerdotai/fsdp_qlora": "fsdp-qlora",
    "fms-acceleration": "transformers",
    "fsdp-qlora": "fsdp-qlora",
    "fsdp_qlora": "fsdp-qlora",
    "hf": "transformers",
    "huggingface": "transformers",
    "llama-factory": "transformers",
    "peft": "transformers",
    "peft-method-comparison": "transformers",
    "transformers": "transformers",
    "trl": "transformers",
    "unsloth": "transformers",
    "fabric": "lightning",
    "lightning": "lightning",
    "pytorch-lightning": "lightning",
    "litgpt": "litgpt",
    "lightning-thunder": "thunder",
    "thunder": "thunder",
    "torchtitan": "torchtitan",
    "torchtune": "torchtune",
    "minimind": "minimind",
    "pytorch": "transformers",
}

_CODES: dict[str, Callable[[Job], tuple[Code, ...]]] = {
    "transformers": transformers.codes,
    "fsdp-qlora": transformers.fsdp_qlora,
    "lightning": lightning.trainer,
    "litgpt": lightning.litgpt,
    "thunder": lightning.thunder,
    "torchtitan": pytorch.torchtitan,
    "torchtune": pytorch.torchtune,
    "minimind": pytorch.minimind,
}


def variants(job: Job) -> tuple[Code, ...]:
    """The codes that the job may run, the likeliest first: one where name and versions decide, more where they are
    open. A framework that is not known is taken for transformers' classes with what else users run."""
    if job.model.family in DENOISERS:
        return diffusers.codes(job)
    name = _NAMES.get(job.framework.name.lower())
    if name is not None:
        return _CODES[name](job)
    found = transformers.codes(job)
    if any(job.framework.name.lower() in note.lower() for note in found[0].notes):
        return found
    note = (
        f"The code of {job.framework.name} is not known here: transformers' classes are played in its place."
    )
    return tuple(replace(code, notes=(*code.notes, note)) for code in found)


def code_for(job: Job) -> Code:
    """The code that the job runs, or most likely runs."""
    return variants(job)[0]
