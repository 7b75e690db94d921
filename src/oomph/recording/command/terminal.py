"""The ends that a command writes to: terminals where ours are terminals, pipes otherwise.

A pseudo-terminal is given for output only. The command stays in our session and our process group, so that Ctrl-C,
Ctrl-Z and what reads the keyboard work as they would without us.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from dataclasses import dataclass

#: A larger pipe means fewer turns for both sides; a kernel that refuses it gives its usual one.
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)


@dataclass
class Channel:
    """One stream: the command writes to `inner`, we read from `outer` and pass on to `target`."""

    outer: int
    inner: int
    target: int
    terminal: bool

    def close_inner(self) -> None:
        """Ours is closed when the command has its own."""
        with contextlib.suppress(OSError):
            os.close(self.inner)


def channel(target: int) -> Channel:
    """A terminal where `target` is one, else a pipe. Raises OSError where neither can be had."""
    if _is_terminal(target):
        with contextlib.suppress(OSError, termios.error):
            return _terminal(target)
    outer, inner = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(outer, _SET_PIPE_SIZE, _PIPE_BYTES)
    return Channel(outer, inner, target, terminal=False)


def _is_terminal(target: int) -> bool:
    try:
        return os.isatty(target)
    except OSError:
        return False


def _terminal(target: int) -> Channel:
    outer, inner = os.openpty()
    settings = termios.tcgetattr(target)
    settings[1] &= ~termios.OPOST  # the real terminal does that; the files get what was written
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(inner, termios.TCSANOW, settings)
    copy_size(target, outer)
    return Channel(outer, inner, target, terminal=True)


def copy_size(source: int, target: int) -> None:
    """Rows and columns of one terminal for another."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)
