"""The child as a process: it ends with its parent, turns SIGTERM into an exception, and counts its memory."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType

from oomph.tracing.child.endings import Interrupted

#: prctl(2): the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def prepare(parent: int | None = None) -> None:
    """To be called first. `parent` is the process to end with; Linux only, elsewhere the parent's signals must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:  # it ended before the call
            os._exit(1)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def quiet_operators() -> None:
    """PyTorch logs a second traceback, of its own code, for arguments that an operator rejects; the script's exception
    says it, as on a GPU."""
    logging.getLogger("torch._subclasses.fake_tensor").addFilter(
        lambda record: not str(record.msg).startswith("failed while attempting to run meta")
    )


def undisturbed() -> None:
    """From here on the trace is written, and a second signal must not stop that."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _terminated(_: int, __: FrameType | None) -> None:
    raise Interrupted


def peak_bytes() -> int | None:
    """The most memory that this process had at once.

    `ru_maxrss` starts at what the parent had when it forked; VmHWM starts at zero with the new program.
    """
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        line = next(line for line in text.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
