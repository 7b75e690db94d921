"""What models are trained for: transformers' class for it, and what a batch of it holds."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.job.families import FAMILIES
from oomph.job.families.build import Reader
from oomph.job.model import Model

#: Ends of class names in config.json's `architectures`, and the task.
_ENDS = (
    ("ForMaskedLM", "masked_lm"),
    ("ForSequenceClassification", "sequence_classification"),
    ("ForTokenClassification", "token_classification"),
    ("ForImageClassification", "image_classification"),
    ("ForCausalLM", "causal_lm"),
    ("LMHeadModel", "causal_lm"),
)
_ENCODERS = frozenset(("bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "deberta-v2"))
_TO_TEXT = frozenset(("t5", "bart"))


@dataclass(frozen=True)
class Task:
    """`auto`: the class of transformers that makes the model. `labels`: what is told apart, "tokens" (one label per
    token, of the vocabulary), "classes" (one per sample) or "tags" (one per token, of the classes). `images`: the
    model reads pictures. `target`: it writes a text of a length of its own."""

    name: str
    auto: str
    labels: str
    images: bool = False
    target: bool = False


TASKS = {
    task.name: task
    for task in (
        Task("causal_lm", "AutoModelForCausalLM", "tokens"),
        Task("masked_lm", "AutoModelForMaskedLM", "tokens"),
        Task("sequence_classification", "AutoModelForSequenceClassification", "classes"),
        Task("token_classification", "AutoModelForTokenClassification", "tags"),
        Task("image_classification", "AutoModelForImageClassification", "classes", images=True),
        Task("seq2seq_lm", "AutoModelForSeq2SeqLM", "tokens", target=True),
    )
}


def task_of(model: Model) -> tuple[Task, str]:
    """The task and a sentence about what was assumed ("" for nothing). `Task` of name "" where none of these is it."""
    named = Reader(model).architecture
    for end, task in _ENDS:
        if named.endswith(end):
            return TASKS[task], ""
    family = model.family
    if family in _TO_TEXT:
        return TASKS["seq2seq_lm"], ""
    if family == "vit":
        return TASKS["image_classification"], "" if named else _taken("image_classification", "no class")
    if family in _ENCODERS and (not named or named.endswith(("ForPreTraining", "Model"))):
        return TASKS["masked_lm"], _taken("masked_lm", named or "no class")
    if family in FAMILIES and FAMILIES[family] not in ("vision", "seeing", "denoisers", "unet", "bert"):
        if not named or named.endswith(("ForPreTraining", "Model")):
            return TASKS["causal_lm"], _taken("causal_lm", named) if named else ""
    return Task("", "", ""), ""


def _taken(task: str, named: str) -> str:
    return (
        f"The model is trained for {task.replace('_', ' ')}: its configuration names {named} "
        "(model.config.architectures says another)."
    )
