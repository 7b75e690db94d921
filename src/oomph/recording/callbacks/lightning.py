"""Lightning's Trainer (`lightning` and `pytorch_lightning`).

from oomph.recording.callbacks.lightning import OomphCallback

trainer = Trainer(callbacks=[OomphCallback()])
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError
from oomph.phases import Phase
from oomph.recording.batch import of_values

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording

#: The methods of a LightningModule, and the phase of each. Lightning calls them past the module's forward.
STEPS = (
    ("training_step", Phase.FORWARD),
    ("validation_step", Phase.EVAL),
    ("test_step", Phase.EVAL),
    ("predict_step", Phase.EVAL),
)


def _base() -> Any:
    """The Callback of the Lightning that the script uses."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if name in sys.modules:
            return sys.modules[name].Callback
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError as error:
            raise UsageError("Lightning is not installed: pip install lightning.") from error
    return Callback


class OomphCallback(_base()):  # type: ignore[misc]
    """Records a fit, a validation or a test. Takes what `oomph.record()` takes; the optimizers are the trainer's."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self.run: Recording | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 - Lightning's signature
        """Begins to record: the model goes to its device after this."""
        if self.run is not None and self.run.active:
            return
        from oomph.recording.api import record

        steps = trainer.max_steps if isinstance(trainer.max_steps, int) and trainer.max_steps > 0 else 0
        self.run = record(**{"steps": steps, **self._options})
        self.run.phases.tells_forward = False
        for name, phase in STEPS:
            if callable(getattr(type(pl_module), name, None)):
                self.run.patches.wrap(type(pl_module), name, _Step(self.run, pl_module, phase))
        if self.run.forecast is not None:
            self.run.forecast.model(pl_module)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """The optimizers are there."""
        if self.run is not None:
            self.run.safely(self.run.watch, None, list(trainer.optimizers))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """What ends the training."""
        if self.run is not None:
            self.run.end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """It is over."""
        if self.run is not None:
            self.run.end()


class _Step:
    """Around one of the module's methods."""

    def __init__(self, run: Recording, module: Any, phase: Phase) -> None:
        self._run, self._module, self._phase = run, module, phase

    def __call__(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        run = self._run
        if module is not self._module:
            return original(module, *args, **kwargs)
        opened = run.enter(self._phase, by=id(module))
        batch = args[0] if args else kwargs.get("batch")
        run.safely(lambda: run.phases.batch(of_values(batch)))
        try:
            result = original(module, *args, **kwargs)
        except BaseException as error:
            run.leave(opened, error)
            raise
        run.leave(opened)
        return result
