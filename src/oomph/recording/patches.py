"""Functions put around PyTorch's and libraries' own, and taken away again at the end of the recording."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """Wraps attributes; `undo` puts back what was there.

    Where somebody else has wrapped ours meanwhile, ours stays and only passes on: what others did is not undone.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._waiting: list[tuple[str, Callable[[Any], None]]] = []
        self._active = [True]

    def wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Calls `wrapper(original, *args, **kwargs)` where `owner.name(*args, **kwargs)` is called."""
        original = getattr(owner, name)
        before = vars(owner).get(name, _MISSING)
        if isinstance(before, (staticmethod, classmethod)):
            return  # none of what is wrapped here is one; another release's may be
        active = self._active

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not active[0]:
                return original(*args, **kwargs)
            return wrapper(original, *args, **kwargs)

        def undo() -> None:
            if vars(owner).get(name) is not wrapped:
                return
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, wrapped)
        self._undo.append(undo)

    def when_undone(self, function: Callable[[], None]) -> None:
        """Runs `function` when all is undone, in its turn."""
        self._undo.append(function)

    def when_there(self, module: str, function: Callable[[Any], None]) -> None:
        """Runs `function(module)` once that module is imported: now, or at a later `look`."""
        self._waiting.append((module, function))

    def look(self) -> None:
        """Looks for modules that were imported since. Costs a look-up for each that is waited for."""
        for entry in tuple(self._waiting):
            module = sys.modules.get(entry[0])
            if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
                continue
            self._waiting.remove(entry)
            entry[1](module)

    def undo(self) -> None:
        """Puts everything back, last first. Nothing raises: one that cannot be put back passes on."""
        self._active[0] = False
        self._waiting.clear()
        while self._undo:
            try:
                self._undo.pop()()
            except Exception:  # noqa: BLE001, S112 - the others are to be put back too
                continue
