"""Replacing a function wherever it was bound by name, for libraries that were imported before the trace began."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def everywhere(recorder: Recorder, module: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """`wrapper(original, *args, **kwargs)` is called in place of `module.name`, under whatever name a module that is
    loaded holds it. A name that the module lacks is left alone."""
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    recorder.patches.set(module, name, wrapped)
    for other in list(sys.modules.values()):
        names = getattr(other, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for bound in [each for each, value in list(names.items()) if value is original]:
            recorder.patches.set(other, bound, wrapped)
