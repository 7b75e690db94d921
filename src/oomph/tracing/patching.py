"""Changes to foreign modules while a trace runs, undone in reverse order afterwards."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_MISSING = object()


class Patches:
    """Sets attributes and remembers what was there. A context manager: leaving it undoes everything.

    `set` replaces an attribute, `wrap` puts a function around one (`wrapper(original, *args, **kwargs)` is called in
    its place), `when_imported` runs a function once a module is there: now, or when the script imports it.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._waiting: dict[str, list[Callable[[ModuleType], None]]] = {}
        self._finder: _Finder | None = None

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def set(self, owner: Any, name: str, value: object) -> None:
        """`owner.name = value` until the trace ends."""
        before = (
            vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else getattr(owner, name, _MISSING)
        )

        def undo() -> None:
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, value)
        self._undo.append(undo)

    def wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Calls `wrapper(original, *args, **kwargs)` where `owner.name(*args, **kwargs)` is called."""
        import functools

        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        self.set(owner, name, wrapped)

    def when_undone(self, function: Callable[[], None]) -> None:
        """Runs `function` when everything is undone, in its turn."""
        self._undo.append(function)

    def when_imported(self, name: str, function: Callable[[ModuleType], None]) -> None:
        """Runs `function(module)` now if the module `name` is there, else right after its import."""
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            function(module)
            return
        self._waiting.setdefault(name, []).append(function)
        if self._finder is None:
            self._finder = _Finder(self._waiting)
            sys.meta_path.insert(0, self._finder)
            finder = self._finder
            self._undo.append(lambda: sys.meta_path.remove(finder))

    def undo(self) -> None:
        """Puts everything back, last first."""
        self._waiting.clear()
        while self._undo:
            self._undo.pop()()
        self._finder = None


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: it lets the others find a module that is waited for, and hooks into its loading."""

    def __init__(self, waiting: dict[str, list[Callable[[ModuleType], None]]]) -> None:
        self.waiting = waiting
        self._busy: set[str] = set()

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls what waits."""
        if fullname not in self.waiting or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy.discard(fullname)
        loader = None if spec is None else spec.loader
        if spec is None or loader is None or not hasattr(loader, "exec_module"):
            return None
        run, waiting = loader.exec_module, self.waiting

        def exec_module(module: ModuleType) -> None:
            run(module)
            for function in waiting.pop(fullname, []):
                function(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
