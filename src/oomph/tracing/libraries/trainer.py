"""transformers' Trainer: it ends after the wanted steps by itself, so what comes after training runs too.

Evaluations are part of a run and often its peak, so one happens even if the first were due after more steps than
are traced; each is cut to a few batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Batches of one evaluation: where only the loss is wanted, and where each batch's logits are kept.
BATCHES = 4
BATCHES_KEPT = 64


def install(recorder: Recorder) -> None:
    """`Trainer.train` stops after the wanted steps; `Trainer.evaluate` after a few batches."""

    def hook(module: ModuleType) -> None:
        during.wrap(recorder, module.Trainer, "train", _Training(recorder).train)
        during.wrap(recorder, module.Trainer, "get_eval_dataloader", _Evaluation(recorder).loader)

    recorder.patches.when_imported("transformers.trainer", hook)


class _Training:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def train(self, original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
        """`Trainer.train` for the wanted number of steps."""
        recorder = self._recorder
        settings = recorder.settings
        wanted = settings.steps
        if wanted is None:
            return original(trainer, *args, **kwargs)
        limits = trainer.args
        if not 0 < limits.max_steps <= wanted:
            limits.max_steps = wanted
        _evaluate_in_time(limits)
        # The trainer counts its steps itself and then does what it does at the end of a training.
        recorder.settings = dataclasses.replace(settings, steps=None)
        try:
            return original(trainer, *args, **kwargs)
        finally:
            recorder.settings = settings


def _evaluate_in_time(limits: Any) -> None:
    """An evaluation that is due after more steps comes at the last one."""
    strategy = str(getattr(limits.eval_strategy, "value", limits.eval_strategy))
    if strategy == "steps" and (not limits.eval_steps or limits.eval_steps > limits.max_steps):
        limits.eval_steps = limits.max_steps


class _Evaluation:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def loader(self, original: Callable[..., Any], trainer: Any, eval_dataset: Any = None, *args: Any) -> Any:
        """The evaluation's data loader, on the first few batches of its data set."""
        data = eval_dataset if eval_dataset is not None else trainer.eval_dataset
        if isinstance(data, str):
            data = trainer.eval_dataset[data]
        size = trainer.args.eval_batch_size
        keeps = trainer.compute_metrics is not None and not trainer.args.prediction_loss_only
        batches = BATCHES_KEPT if keeps else BATCHES
        if not hasattr(data, "__len__") or len(data) <= batches * size:
            return original(trainer, eval_dataset, *args)
        whole = -(-len(data) // size)
        text = f"an evaluation ran {batches} of its {whole} batches"
        if keeps:
            text += (
                "; it keeps each batch's outputs for compute_metrics, so the whole one holds more at its end"
            )
        self._recorder.note(text)
        return original(trainer, _first(data, batches * size), *args)


def _first(data: Any, rows: int) -> Any:
    if hasattr(data, "select"):
        return data.select(range(rows))
    import torch

    return torch.utils.data.Subset(data, range(rows))
