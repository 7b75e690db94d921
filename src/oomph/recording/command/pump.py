"""Passes on what a command prints, as it comes, and gives a copy to whoever keeps it."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable, Sequence

from oomph.recording.command.terminal import Channel

_CHUNK = 1 << 18
#: After the command has ended, what it left behind may still print: so long without a byte, and we are done.
QUIET_SECONDS = 0.5
#: And so long in all, where it goes on printing.
MOST_SECONDS = 5.0


class Pump(threading.Thread):
    """Reads all channels in one thread. `keep(index, data)` gets a copy of what the channel with that index brought.

    What is passed on is passed on unchanged and first; where nobody reads it any more, the command is told so as it
    would be without us: its end of the pipe closes.
    """

    def __init__(self, channels: Sequence[Channel], keep: Callable[[int, bytes], None]) -> None:
        super().__init__(name="oomph-output", daemon=True)
        self._channels = channels
        self._keep = keep
        self._over = threading.Event()
        self._wake_out, self._wake_in = os.pipe()
        #: Whether something still had the other end open when we stopped.
        self.left_open = False
        #: Why copies are no longer given to anybody, "" while they are.
        self.trouble = ""

    def run(self) -> None:
        """Until all ends are closed, or the command is over and silent."""
        poll = select.poll()
        open_now = {one.outer: index for index, one in enumerate(self._channels)}
        for outer in open_now:
            poll.register(outer, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        over_at: float | None = None
        last = time.monotonic()
        while open_now:
            wait = None if over_at is None else max(0, int(1000 * (last + QUIET_SECONDS - time.monotonic())))
            ready = poll.poll(wait)
            now = time.monotonic()
            if over_at is None and self._over.is_set():
                over_at = last = now
                with contextlib.suppress(KeyError):
                    poll.unregister(self._wake_out)
            for outer, _ in ready:
                if outer not in open_now:
                    continue
                last = now
                if not self._move(outer, open_now[outer]):
                    poll.unregister(outer)
                    del open_now[outer]
                    with contextlib.suppress(OSError):
                        os.close(outer)
            if over_at is not None and (now - last >= QUIET_SECONDS or now - over_at >= MOST_SECONDS):
                break
        self.left_open = bool(open_now)
        for outer in open_now:
            with contextlib.suppress(OSError):
                os.close(outer)

    def _move(self, outer: int, index: int) -> bool:
        """Passes on what is there; False when the channel is at its end."""
        try:
            data = os.read(outer, _CHUNK)
        except InterruptedError:
            return True
        except OSError as error:
            # A pseudo-terminal whose other end is closed says EIO.
            return error.errno == errno.EAGAIN
        if not data:
            return False
        passed = write_all(self._channels[index].target, data)
        if not self.trouble:
            try:
                self._keep(index, data)
            except Exception as error:  # noqa: BLE001 - without this thread the command would stand still
                self.trouble = f"{type(error).__name__}: {error}"
        return passed

    def finish(self) -> None:
        """The command is over: passes on what is left and returns."""
        self._over.set()
        with contextlib.suppress(OSError):
            os.write(self._wake_in, b"x")
        self.join()
        for end in (self._wake_in, self._wake_out):
            with contextlib.suppress(OSError):
                os.close(end)


def write_all(target: int, data: bytes) -> bool:
    """False where nobody takes it any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except InterruptedError:
            continue
        except BlockingIOError:  # somebody made our output non-blocking
            with contextlib.suppress(OSError):
                select.select([], [target], [], 1.0)
        except OSError:
            return False
    return True
