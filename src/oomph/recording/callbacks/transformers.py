"""Transformers' Trainer, and TRL's trainers, which are derived from it.

from oomph.recording.callbacks.transformers import OomphCallback

trainer = Trainer(..., callbacks=[OomphCallback()])
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise UsageError("transformers is not installed: pip install transformers.") from error

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording

#: What a tokenizer without a limit says.
_NO_LIMIT = 1 << 20


class OomphCallback(TrainerCallback):  # type: ignore[misc]
    """Records a training, from its beginning to its end, evaluations and saves included. Takes what `oomph.record()`
    takes; the model, the optimizer, the arguments and the data set are the trainer's.

    The end of the training ends the recording. Where an exception ends the process, that does. `run` is the recording.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.run: Recording | None = None
        self._done = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Begins to record, or watches what a second training trains."""
        from oomph.recording.api import record

        model, optimizer = kwargs.get("model"), kwargs.get("optimizer")
        if self.run is not None and self.run.active:
            self.run.safely(self.run.watch, model, optimizer)
            return
        options = {
            "arguments": args,
            "data": getattr(kwargs.get("train_dataloader"), "dataset", None),
            "steps": max(int(state.max_steps or 0), 0),
            "evaluation": _evaluation(args),
            **self._options,
        }
        self.run = record(model=model, optimizer=optimizer, **options)
        if self.run.forecast is not None and "longest" not in self._options:
            tokenizer = kwargs.get("processing_class") or kwargs.get("tokenizer")
            with contextlib.suppress(Exception):  # any object may stand there
                self.run.forecast.guess_longest(*_longest(args, tokenizer))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A step of the trainer begins."""
        if self.run is not None:
            self._done = self.run.phases.step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Counts steps of optimizers that have no hooks (those inside of an engine)."""
        run = self.run
        if run is not None and not run.hooks.steps.done and max(run.phases.step, 0) == max(self._done, 0):
            run.step_done()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The training is over."""
        if self.run is not None:
            self.run.end()


def _evaluation(args: Any) -> int:
    strategy = getattr(args, "eval_strategy", None)
    if strategy is None or str(getattr(strategy, "value", strategy)) == "no":
        return 0
    rows = getattr(args, "per_device_eval_batch_size", 0)
    return rows if isinstance(rows, int) and rows > 0 else 0


def _longest(args: Any, tokenizer: Any) -> tuple[int, str]:
    """The length to which sequences are cut: TRL's `max_length`, else what the tokenizer says of its model."""
    cut = getattr(args, "max_length", None)
    if isinstance(cut, int) and 0 < cut < _NO_LIMIT:
        return cut, f"max_length={cut}"
    limit = getattr(tokenizer, "model_max_length", None)
    if isinstance(limit, int) and 0 < limit < _NO_LIMIT:
        return limit, "the longest that the tokenizer lets through"
    return 0, ""
