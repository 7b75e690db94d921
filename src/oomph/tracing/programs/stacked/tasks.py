"""What models with several stacks read, and how a training loop calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Dimensions = Mapping[str, int]


def pairs(dimensions: Dimensions) -> dict[str, Any]:
    """Sources, a mask that masks nothing, and labels."""
    import torch

    source = (dimensions["b"], dimensions["s"])
    return {
        "input_ids": torch.zeros(source, dtype=torch.int64),
        "attention_mask": torch.ones(source, dtype=torch.int64),
        "labels": torch.zeros((dimensions["b"], dimensions["t"]), dtype=torch.int64),
    }


def seq2seq(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """As a Trainer's step: the returned object is held."""
    del dimensions
    outputs = net(**batch, use_cache=False)
    return {
        "loss": outputs.loss,
        "logits": outputs.logits,
        "encoder": outputs.encoder_last_hidden_state,
    }


def labelled(dimensions: Dimensions) -> dict[str, Any]:
    """Token ids, a mask that masks nothing, and a class for each sequence."""
    import torch

    shape = (dimensions["b"], dimensions["s"])
    return {
        "input_ids": torch.zeros(shape, dtype=torch.int64),
        "attention_mask": torch.ones(shape, dtype=torch.int64),
        "labels": torch.zeros((dimensions["b"],), dtype=torch.int64),
    }


def tagged(dimensions: Dimensions) -> dict[str, Any]:
    """The same with a class for each token."""
    import torch

    shape = (dimensions["b"], dimensions["s"])
    return {**labelled(dimensions), "labels": torch.zeros(shape, dtype=torch.int64)}


def captioned(dimensions: Dimensions) -> dict[str, Any]:
    """As many texts as images."""
    import torch

    shape = (dimensions["b"], dimensions["s"])
    image = (dimensions["b"], 3, dimensions["image"], dimensions["image"])
    return {
        "input_ids": torch.zeros(shape, dtype=torch.int64),
        "attention_mask": torch.ones(shape, dtype=torch.int64),
        "pixel_values": torch.zeros(image),
    }


def captioned_unmasked(dimensions: Dimensions) -> dict[str, Any]:
    """SigLIP's processor makes no mask."""
    return {name: value for name, value in captioned(dimensions).items() if name != "attention_mask"}


def illustrated(dimensions: Dimensions) -> dict[str, Any]:
    """Text with one image in each sequence, and labels."""
    import torch

    batch = captioned(dimensions)
    batch["input_ids"][:, : dimensions["patches"]] = 7
    return {**batch, "labels": torch.zeros_like(batch["input_ids"])}


def plain(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """As a Trainer's step: the returned object is held."""
    del dimensions
    return _held(net(**batch))


def language(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """The same of a language model."""
    del dimensions
    return _held(net(**batch, use_cache=False))


def contrastive(net: Any, batch: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """With the loss."""
    del dimensions
    return _held(net(**batch, return_loss=True))


def _held(outputs: Any, prefix: str = "") -> dict[str, Any]:
    """All tensors of what a model returns; of lists the first: those of a list for each sample share their storage."""
    import torch

    found: dict[str, Any] = {}
    for name, value in outputs.items():
        if isinstance(value, torch.Tensor):
            found[prefix + name] = value
        elif isinstance(value, (list, tuple)):
            tensors = [each for each in value if isinstance(each, torch.Tensor)]
            if tensors:
                found[prefix + name] = tensors[0]
        elif hasattr(value, "items"):
            found.update(_held(value, f"{name}."))
    return found
