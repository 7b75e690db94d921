"""A line on stderr while a large input is read."""

from __future__ import annotations

import time
from typing import TextIO

#: Below this many bytes reading takes no noticeable time.
LARGE_BYTES = 50 * 10**6
#: Seconds between two updates.
_INTERVAL = 0.1


class Progress:
    """Callable with (bytes done, bytes in all; 0 when unknown). Draws on a terminal only."""

    def __init__(self, stream: TextIO, *, verbose: bool = False, quiet: bool = False) -> None:
        self._stream = stream
        self._threshold = 0 if verbose else LARGE_BYTES
        self._enabled = stream.isatty() and not quiet
        self._due = 0.0
        self._drawn = 0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        if not self._enabled or max(done_bytes, total_bytes) <= self._threshold:
            return
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _INTERVAL
        share = f" of {_megabytes(total_bytes)} ({done_bytes / total_bytes:.0%})" if total_bytes else ""
        self._draw(f"reading {_megabytes(done_bytes)}{share}")

    def stage(self, text: str, size_bytes: int) -> None:
        """Says what is being done to a large input, where how much of it is done cannot be told."""
        if self._enabled and size_bytes > self._threshold:
            self._draw(text)

    def finish(self) -> None:
        """Wipes the line."""
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
            self._drawn = 0

    def _draw(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(text)


def _megabytes(size_bytes: int) -> str:
    """File sizes are decimal, as `ls -h --si` and disk makers count; sizes of GPU memory go through units.py."""
    return f"{size_bytes / 10**6:,.0f} MB"
