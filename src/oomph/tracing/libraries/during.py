"""Wrapped functions that are themselves again once the trace is over, whoever took them by name meanwhile.

`from datasets import load_dataset` keeps the wrapped function in the importing module, where undoing does not reach.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def wrap(recorder: Recorder, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """`wrapper(original, *args, **kwargs)` in place of `owner.name`, as long as this recorder's trace runs."""
    recorder.patches.set(owner, name, function(recorder, getattr(owner, name), wrapper))


def function(
    recorder: Recorder, original: Callable[..., Any], wrapper: Callable[..., Any]
) -> Callable[..., Any]:
    """A function that is `wrapper` around `original` while the trace runs, and `original` afterwards."""
    from oomph.tracing.recorder import recorder as recorders

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        if recorders.current() is recorder:
            return wrapper(original, *args, **kwargs)
        return original(*args, **kwargs)

    return run
