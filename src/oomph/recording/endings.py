"""How a process ends, as a recording hears of it: an exception that nobody caught, or the interpreter's exit."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

Ending = Callable[["BaseException | None"], "Callable[[], None] | None"]


class Endings:
    """Calls `ending(error)` for an exception that ends the process, before its traceback is printed as ever, and
    `ending(None)` at the exit. What `ending` returns is called after the traceback. `raised(error)` hears of what ends
    a thread.

    Hooks of others stay: the one that was there is called, and what is put around this one later is left alone.
    """

    def __init__(self, ending: Ending, raised: Callable[[BaseException], None]) -> None:
        self._ending = ending
        self._raised = raised
        self._active = False
        self._before: Any = None
        self._before_thread: Any = None

    def install(self) -> None:
        """From now on."""
        self._active = True
        self._before, sys.excepthook = sys.excepthook, self._hook
        self._before_thread, threading.excepthook = threading.excepthook, self._thread_hook
        atexit.register(self._exit)

    def remove(self) -> None:
        """No more. Where somebody else's hook is around this one, it passes on."""
        self._active = False
        # A bound method is a new object each time: compared by equality, not identity.
        if sys.excepthook == self._hook:
            sys.excepthook = self._before
        if threading.excepthook == self._thread_hook:
            threading.excepthook = self._before_thread
        atexit.unregister(self._exit)

    def _end(self, error: BaseException | None) -> Callable[[], None] | None:
        if not self._active:
            return None
        try:
            return self._ending(error)
        except Exception:  # noqa: BLE001 - the exception of the job is what has to be seen
            return None

    def _hook(
        self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before = self._before
        after = self._end(error if error is not None else kind())
        before(kind, error, trace)
        _call(after)

    def _thread_hook(self, args: Any) -> None:
        before = self._before_thread
        if self._active and args.exc_value is not None:  # the end of one thread is not the process's
            _call(lambda: self._raised(args.exc_value))
        before(args)

    def _exit(self) -> None:
        _call(self._end(None))


def _call(function: Callable[[], None] | None) -> None:
    if function is None:
        return
    with contextlib.suppress(Exception):  # as above
        function()
