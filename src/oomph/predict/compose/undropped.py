"""A model without dropout: as `eval()` leaves it, or TRL's `disable_dropout`."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.job.model import Dimension, Job, Method, Model


def without_dropout(job: Job) -> Job:
    """The job with no dropout in the model and its adapters."""
    return replace(job, model=_model(job.model), method=_adapters(job.method))


def _model(model: Model) -> Model:
    config = [
        replace(each, value=0.0) if "drop" in each.key and each.value else each for each in model.config
    ]
    if not any("drop" in each.key for each in config):
        config.append(Dimension(key="dropout", value=0.0))
    return replace(model, config=tuple(config))


def _adapters(method: Method) -> Method:
    if method.lora is None:
        return method
    return replace(method, lora=replace(method.lora, dropout=0.0))
