"""Accelerate: a tracker that records.

from oomph.recording.callbacks.accelerate import OomphTracker

accelerator = Accelerator(log_with=OomphTracker())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.init_trackers("my-run", config=vars(args))
...
accelerator.end_training()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError

try:
    from accelerate import Accelerator
    from accelerate.tracking import GeneralTracker
except ImportError as error:
    raise UsageError("accelerate is not installed: pip install accelerate.") from error

from oomph.recording.patches import Patches

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording


class OomphTracker(GeneralTracker):  # type: ignore[misc]
    """Records on every process, from the first `prepare` (or `init_trackers`) on until `end_training`. Takes what
    `oomph.record()` takes. Models and optimizers are those that are prepared while it is there. What is logged is not
    kept: this tracker records memory."""

    name = "oomph"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self.run: Recording | None = None
        self._patches = Patches()
        for method in ("prepare_model", "prepare_optimizer"):
            self._patches.wrap(Accelerator, method, self._prepares)

    @property
    def tracker(self) -> Recording | None:
        """The recording."""
        return self.run

    def _prepares(self, original: Any, accelerator: Any, thing: Any, *args: Any, **kwargs: Any) -> Any:
        # Before the model is prepared: processes and devices are known by now, and its wrapping is part of loading.
        run = self._begin()
        prepared = original(accelerator, thing, *args, **kwargs)
        if original.__name__ == "prepare_model":
            run.safely(run.watch, prepared, None)
            if run.forecast is not None:
                run.forecast.model(prepared)
        else:
            run.safely(run.watch, None, prepared)
        return prepared

    def _begin(self) -> Recording:
        if self.run is None or not self.run.active:
            from oomph.recording.api import record

            self.run = record(**self._options)
        return self.run

    def start(self) -> None:
        """`init_trackers` was called."""
        self._begin()

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """The configuration goes into the record as a note."""
        if self.run is not None and values:
            shown = ", ".join(f"{name}={value}" for name, value in sorted(values.items()))[:2_000]
            self.run.note(f"configuration: {shown}")

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Nothing: other trackers keep what is logged."""

    def finish(self) -> None:
        """`end_training` was called."""
        self._patches.undo()
        if self.run is not None:
            self.run.end()
