"""Which of a family's programs a model runs, as far as its configuration decides: its task, the window of its
attention, and the kind of each of its layers."""

from __future__ import annotations

from collections.abc import Collection

from oomph.job.families.build import Reader
from oomph.job.model import Model
from oomph.predict.compose import experts
from oomph.predict.programs.load import Variant

#: What transformers' classes are for, by how their names end; BertForPreTraining has a small head beside.
_TASKS = (
    ("ForMaskedLM", "masked_lm"),
    ("ForPreTraining", "masked_lm"),
    ("ForSequenceClassification", "sequence_classification"),
    ("ForImageClassification", "image_classification"),
    ("ForTokenClassification", "token_classification"),
    ("ForQuestionAnswering", "question_answering"),
    ("ForMultipleChoice", "multiple_choice"),
)
#: The window where a configuration does not name it (configuration_*.py of transformers 5).
_WINDOWS = {"mistral": 4096, "gemma3_text": 4096}
#: Families whose window counts only where `use_sliding_window` says so.
_SWITCHED = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
_MODERNBERT_WINDOW = 128


def classes(model: Model) -> int:
    """Classes of a classifier, as its configuration says."""
    return Reader(model).labels


def task_of_class(model: Model) -> str:
    """What the class that config.json names is for; "" where it names none, or the family's usual one."""
    name = Reader(model).architecture
    return next((task for end, task in _TASKS if name.endswith(end)), "")


def task_of(variant: Variant) -> str:
    """What a variant's model was trained for."""
    return str(variant.more.get("task", "causal_lm"))


def window(model: Model) -> int | None:
    """The sequence from which on attention with a window needs a mask (masking_utils.py: one is made unless the keys
    are fewer than the window); None for attention without a window."""
    if model.family == "modernbert":
        return Reader(model, {"local_attention": _MODERNBERT_WINDOW}).number("local_attention") // 2
    if model.family in _SWITCHED and model.get("use_sliding_window") is not True:
        return None
    defaults = {"sliding_window": _WINDOWS[model.family]} if model.family in _WINDOWS else {}
    return Reader(model, defaults).optional("sliding_window")


def kind(model: Model, layer: int, sections: Collection[str]) -> str:
    """The section of a layer: `first`, `full`, `dense` or `block`, of those that the program has (docs/programs.md)."""
    if "dense" in sections and layer < experts.dense_layers(model):
        return "dense"
    if layer == 0 and "first" in sections:
        return "first"
    if "full" not in sections:
        return "block"
    return "full" if _is_full(model, layer) else "block"


def _is_full(model: Model, layer: int) -> bool:
    """Whether a layer attends to the whole sequence: as `layer_types` says, else each n-th (configuration_gemma3.py:
    the last of six, configuration_modernbert.py: the first of three, configuration_gpt_oss.py: the second of two)."""
    types = model.get("layer_types")
    if isinstance(types, tuple) and layer < len(types):
        return bool(types[layer] == "full_attention")
    if model.family == "gpt_oss":
        return layer % 2 == 1
    if model.family == "modernbert":
        return (
            layer % Reader(model, {"global_attn_every_n_layers": 3}).number("global_attn_every_n_layers") == 0
        )
    read = Reader(model, {"sliding_window_pattern": 6})
    return (layer + 1) % read.number("sliding_window_pattern", "_sliding_window_pattern") == 0
