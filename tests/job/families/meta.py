"""transformers' own classes without weights: what the families' tables are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

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
        config = _transformers().AutoConfig.for_model(family)
        values = config.to_dict()
        values |= {key: getattr(config, key) for key in config.attribute_map if hasattr(config, key)}
    return {**values, "tie_word_embeddings": getattr(config, "tie_word_embeddings", None)}


def real_parameters(
    family: str, config: Mapping[str, Any], auto: str = "AutoModelForCausalLM"
) -> dict[str, Any]:
    """Every parameter of the real class: name -> (shape, name of the parameter that it is tied to or ""), in order."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = _transformers().AutoConfig.for_model(family, **{"pad_token_id": None, **config})
        with torch.device("meta"):
            model = getattr(_transformers(), auto).from_config(own)
    first: dict[int, str] = {}
    named: dict[str, Any] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        named[name] = tuple(tensor.shape), first.get(id(tensor), "")
        first.setdefault(id(tensor), name)
    return named
