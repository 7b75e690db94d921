"""What a recording is given to watch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording


def check_models(model: object) -> None:
    """Raises UsageError for what is no module."""
    for one in _each(model):
        try:
            is_module = hasattr(one, "register_forward_pre_hook")
        except Exception:  # noqa: BLE001 - an object that answers no question is no module
            is_module = False
        if not is_module:
            raise UsageError(
                f"model is a {type(one).__name__}: it is to be a torch.nn.Module, or several of them."
            )


def watch(recording: Recording, model: object, optimizer: object) -> None:
    """Watches models and optimizers, one or several. Raises UsageError for what is no module."""
    check_models(model)
    for one in _each(model):
        recording.phases.tells_forward = False
        recording.safely(recording.hooks.watch, one)
        if _is_engine(one):
            from oomph.recording.callbacks.deepspeed import watch_engine

            recording.safely(watch_engine, recording, one)
    for one in _each(optimizer):
        inner = one
        while hasattr(inner, "optimizer") and inner.optimizer is not inner:
            inner = inner.optimizer
        if hasattr(inner, "param_groups") and hasattr(type(inner), "profile_hook_step"):
            recording.safely(recording.hooks.steps.expect, inner)


def _each(given: object) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, Mapping):
        return tuple(given.values())
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


def _is_engine(model: Any) -> bool:
    """Whether it is an engine as DeepSpeed has them: a module with a backward and a step of its own."""
    return all(callable(getattr(model, name, None)) for name in ("backward", "step")) and hasattr(
        model, "is_gradient_accumulation_boundary"
    )
