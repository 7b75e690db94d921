"""transformers' own classes without weights: what the families' tables are compared with."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

from oomph.job.families import Architecture
from oomph.job.model import Dimension, Model


def model_of(family: str, **config: Any) -> Model:
    """A model of these config.json keys."""
    pairs = sorted({"model_type": family, **config}.items())
    return Model(
        name="a test",
        family=family,
        config=tuple(Dimension(key=key, value=tuple(v) if isinstance(v, list) else v) for key, v in pairs),
    )


@cache
def _transformers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        transformers.logging.set_verbosity_error()
    return transformers


def default_config(family: str) -> dict[str, Any]:
    """What the configuration class of a family has where nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if family[0].isupper():  # a class of diffusers
            import diffusers

            parameters = inspect.signature(getattr(diffusers, family)).parameters
            return {key: one.default for key, one in parameters.items()}
        config = _transformers().AutoConfig.for_model(family)
        values = config.to_dict()
        values |= {key: getattr(config, key) for key in config.attribute_map if hasattr(config, key)}
    return {**values, "tie_word_embeddings": getattr(config, "tie_word_embeddings", None)}


def real_parameters(
    family: str, config: Mapping[str, Any], auto: str = "AutoModelForCausalLM"
) -> dict[str, Any]:
    """Every parameter of the real class: name -> (shape, name of the parameter that it is tied to or "", kind), in
    the order of registration."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = _transformers().AutoConfig.for_model(family, **{"pad_token_id": None, **config})
        with torch.device("meta"):
            model = getattr(_transformers(), auto).from_config(own)
    return listed(model)


def listed(model: Any) -> dict[str, Any]:
    """As `real_parameters`, of a model at hand."""
    first: dict[int, str] = {}
    named: dict[str, Any] = {}
    modules = dict(model.named_modules())
    for name, tensor in model.named_parameters(remove_duplicate=False):
        owner, _, own_name = name.rpartition(".")
        named[name] = (
            tuple(tensor.shape),
            first.get(id(tensor), ""),
            _kind(type(modules[owner]).__name__, own_name),
        )
        first.setdefault(id(tensor), name)
    return named


def _kind(module: str, parameter: str) -> str:
    """What a parameter of a module of this class is, by torch's and transformers' names of classes."""
    if "Norm" in module:
        return "norm"
    if "Embedding" in module and parameter == "weight":
        return "embedding"
    if module.endswith(("Linear", "Conv1D")) or (module.startswith("Conv") and parameter == "bias"):
        return "bias" if parameter == "bias" else "linear"
    return "conv" if module.startswith("Conv") else "other"


def same_parameters(found: Architecture, real: Mapping[str, Any]) -> None:
    """Asserts that both have the same parameters: names, order, shapes, ties and kinds."""
    ours = {name: (one.shape, one.tied, one.kind) for name, one in found.named()}
    assert list(ours.items()) == list(real.items())
    assert found.total == sum(prod(shape) for shape, tied, _ in real.values() if not tied)
