"""The recorder's own thread: what takes time happens here, and never in a step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_TICK_SECONDS = 0.5


class Background:
    """Calls functions every so many seconds. A function that raises is told of and not called again."""

    def __init__(self, complain: Callable[[BaseException], object]) -> None:
        self._complain = complain
        self._jobs: list[list[object]] = []
        self._stop = threading.Event()
        self.thread: threading.Thread | None = None

    def every(self, seconds: Callable[[], float], function: Callable[[], None]) -> None:
        """Calls `function` every `seconds()`; that is asked each time."""
        self._jobs.append([time.monotonic() + seconds(), seconds, function])

    def start(self) -> None:
        """From now on. A daemon: it holds up nobody's exit."""
        self.thread = threading.Thread(target=self._run, name="oomph recorder", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Waits a moment for what is going on."""
        self._stop.set()
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            for job in tuple(self._jobs):
                due, seconds, function = job
                if time.monotonic() < due:  # type: ignore[operator]
                    continue
                try:
                    function()  # type: ignore[operator]
                    job[0] = time.monotonic() + seconds()  # type: ignore[operator]
                except Exception as error:  # noqa: BLE001 - the others go on
                    self._jobs.remove(job)
                    self._complain(error)
