"""Where a script that would not end is stopped: a number of operators, or of seconds.

Seconds are kept by a thread that sends the main one a signal, whose handler raises: unlike an exception that is set
from outside, it wakes the main thread out of `sleep`, `select` and locks too. What the signal cannot reach (a C
function that does not return) is left after some more seconds.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from oomph.tracing.child.request import Limits
from oomph.tracing.child.tracebacks import place

#: Operators between two calls of the recorder's `on_tick`.
TICK = 4096
#: How often the signal is sent again, where a script caught what it raised, and how long to wait in between.
_ATTEMPTS = 5
_PAUSE_SECONDS = 2.0
#: From how many seconds without an operator on the sentence speaks of them.
_IDLE_SECONDS = 10.0


class LimitReached(BaseException):
    """A limit stops the script; its text is the sentence. No `except Exception` of the script catches it."""


def _signal() -> int:
    """A signal that scripts do not use: their own timeouts use SIGALRM, and torch's agents the usual ones."""
    first = getattr(signal, "SIGRTMIN", None)
    return int(signal.SIGUSR2) if first is None else int(first) + 5


class Watch:
    """Keeps the limits while a script runs: a context manager, used in the main thread.

    `operators` gives how many have run so far. `give_up` is called, in the watching thread, with a sentence when the
    main thread cannot be stopped; it does not return.
    """

    def __init__(self, limits: Limits, operators: Callable[[], int], give_up: Callable[[str], None]) -> None:
        self.limits = limits
        self._operators = operators
        self._give_up = give_up
        self._done = threading.Event()
        self._began = time.monotonic()
        self._moved = (0, self._began)
        self._main = threading.get_ident()

    def __enter__(self) -> Watch:
        if self.limits.seconds is not None:
            signal.signal(_signal(), self._stop)
            threading.Thread(target=self._watch, name="oomph-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def tick(self) -> None:
        """To be called every TICK operators. Raises LimitReached."""
        if self.limits.operators is not None and self._operators() >= self.limits.operators:
            here = place(inspect.currentframe())
            raise LimitReached(f"Stopped after {self._operators():,} operators, at {here}.")

    def _watch(self) -> None:
        seconds = self.limits.seconds
        assert seconds is not None
        while not self._done.wait(min(1.0, max(0.01, self._began + seconds - time.monotonic()))):
            count = self._operators()
            if count != self._moved[0]:
                self._moved = (count, time.monotonic())
            if time.monotonic() - self._began >= seconds:
                break
        for _ in range(_ATTEMPTS):
            if self._done.is_set():
                return
            signal.pthread_kill(self._main, _signal())
            self._done.wait(_PAUSE_SECONDS)
        if not self._done.is_set():
            self._give_up(self._sentence(sys._current_frames().get(self._main)))  # noqa: SLF001

    def _stop(self, _: int, frame: FrameType | None) -> None:
        if not self._done.is_set():
            raise LimitReached(self._sentence(frame))

    def _sentence(self, frame: FrameType | None) -> str:
        now = time.monotonic()
        idle = now - self._moved[1]
        ran = f"Stopped after {now - self._began:.0f} seconds"
        if idle >= _IDLE_SECONDS or not self._operators():
            return f"{ran}, the last {idle:.0f} of them without an operator on the device, at {place(frame)}."
        return f"{ran} and {self._operators():,} operators on the device, at {place(frame)}."
