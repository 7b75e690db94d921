"""Replacing a function of torch wherever torch has bound its name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def everywhere(recorder: Recorder, module: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """`wrapper(original, *args, **kwargs)` is called in place of `module.name`, also where other modules of torch have
    imported the function by name. A name that this torch does not have is left alone."""
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    for other_name, other in list(sys.modules.items()):
        if other_name.partition(".")[0] == "torch" and vars(other).get(name) is original:
            recorder.patches.set(other, name, wrapped)
