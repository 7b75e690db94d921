"""DeepSpeed engines, known by what they can: `backward`, `step`, `is_gradient_accumulation_boundary`.

An engine's forward is a module's, and seen by the hooks. Its backward may do more than autograd (reduce, partition),
and its optimizer is often none of PyTorch's: both methods are watched on the engine itself.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording


def watch_engine(recording: Recording, engine: Any) -> None:
    """Watches an engine until the recording ends. `oomph.record(model=engine)` does it by itself."""
    inner = getattr(engine, "module", None)
    backward, step = engine.backward, engine.step

    def watched_backward(*args: Any, **kwargs: Any) -> Any:
        opened = recording.enter(Phase.BACKWARD)
        try:
            result = backward(*args, **kwargs)
        except BaseException as error:
            recording.leave(opened, error)
            raise
        recording.leave(opened)
        return result

    def watched_step(*args: Any, **kwargs: Any) -> Any:
        completes = _completes(engine)
        before = recording.phases.step
        opened = recording.enter(Phase.OPTIMIZER) if completes else None
        skipped = getattr(engine, "skipped_steps", 0)
        try:
            result = step(*args, **kwargs)
        except BaseException as error:
            recording.leave(opened, error)
            raise
        recording.leave(opened)
        # An optimizer of PyTorch inside of the engine's has told of its step already; one that overflowed took none.
        if completes and recording.phases.step == before and getattr(engine, "skipped_steps", 0) == skipped:
            recording.step_done()
        return result

    # In the instance's own table: an nn.Module's __setattr__ has its own ideas, and the class has other instances.
    own = vars(engine)
    own["backward"], own["step"] = watched_backward, watched_step

    def undo() -> None:
        for name, ours in (("backward", watched_backward), ("step", watched_step)):
            if own.get(name) is ours:
                del own[name]

    recording.patches.when_undone(undo)
    if inner is not None and hasattr(inner, "parameters") and recording.forecast is not None:
        recording.forecast.model(inner)


def _completes(engine: Any) -> bool:
    with contextlib.suppress(Exception):
        return bool(engine.is_gradient_accumulation_boundary())
    return True
