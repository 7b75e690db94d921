"""What models are trained for: the class, the batch, and what the training loop keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oomph.tracing.programs.forward import Batch, text_batch

Dimensions = Mapping[str, int]


@dataclass(frozen=True)
class Task:
    """One task. `auto` is the class of transformers that gives a model for it."""

    auto: str
    batch: Batch
    run: Callable[[Any, Mapping[str, Any], Dimensions], dict[str, Any]]


def _language(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """As a Trainer's step: the returned object is held."""
    del dimensions
    outputs = net(**batch, use_cache=False)
    return {"loss": outputs.loss, "logits": outputs.logits}


def _plain(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    del dimensions
    outputs = net(**batch)
    return {"loss": outputs.loss, "logits": outputs.logits}


def _labelled(dimensions: Dimensions) -> dict[str, Any]:
    import torch

    return text_batch(dimensions) | {"labels": torch.zeros((dimensions["b"],), dtype=torch.int64)}


def _images(dimensions: Dimensions) -> dict[str, Any]:
    import torch

    shape = (dimensions["b"], 3, dimensions["image"], dimensions["image"])
    return {"pixel_values": torch.zeros(shape), "labels": torch.zeros((dimensions["b"],), dtype=torch.int64)}


TASKS: Mapping[str, Task] = {
    "causal_lm": Task("AutoModelForCausalLM", text_batch, _language),
    "masked_lm": Task("AutoModelForMaskedLM", text_batch, _plain),
    "sequence_classification": Task("AutoModelForSequenceClassification", _labelled, _plain),
    "image_classification": Task("AutoModelForImageClassification", _images, _plain),
}
