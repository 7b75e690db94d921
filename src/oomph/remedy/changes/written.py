"""How settings are spelled: a framework's own words, filled in."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.model import Job

#: Framework as a job names it, in lower case -> whose spelling its users write; "" is plain PyTorch. A job that names
#: none is predicted with transformers' code, and answered in its words.
_DIALECTS = {
    "": "transformers",
    "transformers": "transformers",
    "hf": "transformers",
    "huggingface": "transformers",
    "unsloth": "transformers",
    "peft": "transformers",
    "fms-acceleration": "transformers",
    "trl": "trl",
    "axolotl": "axolotl",
    "llama-factory": "llamafactory",
    "llamafactory": "llamafactory",
    "torchtune": "torchtune",
    "torchtitan": "torchtitan",
    "litgpt": "litgpt",
    "lightning": "lightning",
    "pytorch-lightning": "lightning",
    "fabric": "lightning",
    "megatron": "megatron",
    "megatron-lm": "megatron",
    "deepspeed": "deepspeed",
    "accelerate": "accelerate",
}
#: Where a dialect has no words of its own, those of the one that it is built on.
_BUILT_ON = {
    "trl": "transformers",
    "axolotl": "transformers",
    "llamafactory": "transformers",
    "litgpt": "lightning",
}
ZERO = ("zero1", "zero2", "zero3")
ON_TRAINER = ("transformers", "trl", "axolotl", "llamafactory")


def dialect(job: Job) -> str:
    """Whose spelling the job's user writes; "" is plain PyTorch."""
    return _DIALECTS.get(job.framework.name.lower(), "")


def written(job: Job, table: Mapping[str, str], **values: object) -> tuple[str, ...]:
    """The lines of the job's dialect, with each `{name}` replaced by its value. `table` has an entry for ""."""
    name = dialect(job)
    text = table.get(name) or table.get(_BUILT_ON.get(name, ""), table[""])
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    return tuple(text.split("\n"))


def major(job: Job, library: str) -> int | None:
    """The first number of a library's version; None where it is not known."""
    version = job.framework.version(library)
    return None if version is None else version[0]
