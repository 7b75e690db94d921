"""Lightning's Trainer: `fit` ends after the wanted steps by itself, so what comes after training runs too.

As with the Trainer of transformers, a validation happens even if the first were due after more steps than are traced,
and evaluations are cut to a few batches. Loops of Fabric are the script's own.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries import during
from oomph.tracing.libraries.trainer import BATCHES, BATCHES_KEPT

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def install(recorder: Recorder) -> None:
    """Leads `fit` and the evaluations of both packages that hold Lightning's Trainer."""
    for package in _PACKAGES:
        recorder.patches.when_imported(f"{package}.trainer.trainer", _hook(recorder, package))


def _hook(recorder: Recorder, package: str) -> Callable[[ModuleType], None]:
    def hook(module: ModuleType) -> None:
        fitting = getattr(importlib.import_module(f"{package}.loops.fit_loop"), "_FitLoop", None)
        evaluation = getattr(
            importlib.import_module(f"{package}.loops.evaluation_loop"), "_EvaluationLoop", None
        )
        if fitting is None or evaluation is None:  # before Lightning 2.0
            return
        training = _Training(recorder)
        during.wrap(recorder, module.Trainer, "fit", training.fit)
        during.wrap(recorder, fitting, "on_run_start", training.started)
        during.wrap(recorder, evaluation, "setup_data", _Evaluation(recorder).prepared)

    return hook


class _Training:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._wanted: int | None = None

    def fit(self, original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
        """`Trainer.fit` for the wanted number of steps."""
        recorder = self._recorder
        settings = recorder.settings
        if settings.steps is None:
            return original(trainer, *args, **kwargs)
        # Lightning counts its steps itself. It does not see optimizers that a module steps without it: those end the
        # trace one step later than they would have.
        recorder.settings = dataclasses.replace(settings, steps=settings.steps + 1)
        self._wanted = settings.steps
        try:
            return original(trainer, *args, **kwargs)
        finally:
            recorder.settings = settings
            self._wanted = None

    def started(self, original: Callable[..., Any], loop: Any, *args: Any, **kwargs: Any) -> Any:
        """The beginning of training, when optimizers, batches of an epoch and steps of a checkpoint are known."""
        if self._wanted is not None:
            trainer = loop.trainer
            # Every optimizer's steps count.
            most = trainer.global_step + self._wanted * max(len(trainer.optimizers), 1)
            if not 0 <= trainer.max_steps <= most:
                loop.epoch_loop.max_steps = most
                _validate_in_time(trainer, loop, self._wanted * trainer.accumulate_grad_batches)
        return original(loop, *args, **kwargs)


def _validate_in_time(trainer: Any, loop: Any, batches: int) -> None:
    """A validation that is due after more batches of training comes after these."""
    epoch = loop.max_batches
    every = trainer.check_val_every_n_epoch
    if every is not None and every * epoch > batches:
        trainer.check_val_every_n_epoch = 1
    if getattr(trainer, "_val_check_time_interval", None) is not None:
        trainer._val_check_time_interval = None  # noqa: SLF001 - time is not traced
        trainer.val_check_batch = float("inf")
    due = trainer.val_check_batch
    if (due is None or due > batches) and (every is None or epoch > batches):
        trainer.val_check_batch = batches


class _Evaluation:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def prepared(self, original: Callable[..., Any], loop: Any, *args: Any, **kwargs: Any) -> Any:
        """The data of a validation or test, of which only the first few batches are taken."""
        result = original(loop, *args, **kwargs)
        if self._recorder.settings.steps is None:
            return result
        batches = loop._max_batches  # noqa: SLF001 - the loop has no other place for it
        if not isinstance(batches, list):
            return result
        keeps = _has_an_end(loop.trainer)
        most = BATCHES_KEPT if keeps else BATCHES
        for place, whole in enumerate(batches):
            if whole > most:
                batches[place] = most
                name = "a test" if loop.trainer.testing else "a validation"
                text = f"{name} ran {most} of its {whole} batches"
                if keeps:
                    text += "; what the module keeps of each for its end grows with the others"
                self._recorder.note(text)
        return result


def _has_an_end(trainer: Any) -> bool:
    """Whether the module does something after the last batch, for which it may keep outputs of all."""
    stage = "test" if trainer.testing else "validation"
    name = f"on_{stage}_epoch_end"
    method = getattr(type(trainer.lightning_module), name, None)
    return method is not None and not method.__module__.startswith(_PACKAGES)
