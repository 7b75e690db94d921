"""Gradients of a trace are finite: a GradScaler that could not read that would skip every optimizer step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """What `GradScaler` finds when it looks for infinities is 0."""
    import torch

    from oomph.tracing.recorder.values import attach

    def unscale(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        for tensor in found.values():
            if hasattr(tensor, "fake_device"):
                attach(tensor, torch.zeros(tuple(tensor.shape)))
        recorder.assume("no gradient is infinite: GradScaler skips no step and keeps its scale")
        return found

    for scaler in {torch.amp.GradScaler, torch.cuda.amp.GradScaler}:
        if "_unscale_grads_" in vars(scaler):
            recorder.patches.wrap(scaler, "_unscale_grads_", unscale)
