"""Threads that the script starts: a dispatch mode is a thread's own, so each new thread gets the trace's."""

from __future__ import annotations

import threading
from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder, mode: Any) -> None:
    """Runs every Python thread that begins during the trace under its mode. (Autograd's own threads take the modes of
    the one that calls backward along: torch/csrc/autograd/engine.cpp, through ThreadLocalState.)"""

    def run(original: Any, thread: Any) -> Any:
        with mode:
            return original(thread)

    # The one method that all threads run through: `run` is often overridden, and `start` runs in the parent.
    recorder.patches.wrap(threading.Thread, "_bootstrap_inner", run)
