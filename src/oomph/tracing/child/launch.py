"""The parent's side: starts the child, hands signals on, and says what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from oomph.errors import UsageError
from oomph.tracing.child.request import Ending, Outcome, Request, read_outcome, write

#: `-c` and not `-m`: with `-m` the folder that the user stands in comes first on `sys.path` while oomph's own modules
#: are imported, and a `token.py` there would be taken for Python's. It is taken off before anything is imported.
#: Until the child answers signals itself, Ctrl-C ends it at once.
_BOOT = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
if sys.path and sys.path[0] == "": del sys.path[0]
try:
    from oomph.tracing.child.main import main
except ImportError:
    sys.path.append({root!r})
    from oomph.tracing.child.main import main
from pathlib import Path
_oomph_boot = True
main(Path({request!r}))
"""
_ROOT = str(Path(__file__).resolve().parents[3])
#: Beyond its own limit of time the child has this long to write its files. A loop that never lets another thread run
#: (Python 3.10 has such: `while True: try: pass ...`), in Python or in C, ends here.
_GRACE_SECONDS = 120.0


def run(request: Request, *, quiet: bool = False) -> Outcome:
    """Runs the request in a child process with this Python, and waits for it.

    What the script prints goes to standard error, since standard output is for oomph's own report; `quiet` drops what
    it prints to standard output. The child is gone when this returns, whatever happens. Raises UsageError where there
    are no signals and process groups.
    """
    if os.name != "posix":
        raise UsageError("oomph trace needs Linux: it cannot run a script here.")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oomph-") as folder:
        asked = Path(folder) / "request.json"
        answered = Path(folder) / "outcome.json"
        write(replace(request, outcome=str(answered)), asked)
        boot = _BOOT.format(root=_ROOT, request=str(asked))
        child = subprocess.Popen(  # noqa: S603 - the user's own script, which is what was asked for
            [sys.executable, *request.target.interpreter, "-c", boot],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else 2,
            env={**os.environ, "OOMPH_TRACE_PARENT": str(os.getpid())},
            start_new_session=True,  # a terminal's Ctrl-C comes once, from here
        )
        try:
            with _handed_on(child) as seen:
                in_time = _wait(child, request.limits.seconds)
        finally:
            _end(child)
        outcome = read_outcome(answered)
    if outcome is None:
        outcome = _gone(child.returncode, len(seen), in_time)
    return replace(outcome, seconds=outcome.seconds or time.monotonic() - began)


def _wait(child: subprocess.Popen[bytes], seconds: float | None) -> bool:
    """Whether the child ended in time."""
    limit = None if seconds is None else seconds + _GRACE_SECONDS
    try:
        child.wait(limit)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """No process is left: neither the child nor what it started itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@contextmanager
def _handed_on(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """While the child runs, signals are its to answer; the second one kills it. Gives the list of those that came."""
    seen: list[int] = []

    def hand_on(number: int, _: FrameType | None) -> None:
        seen.append(number)
        child.send_signal(signal.SIGKILL if len(seen) > 1 else number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # nohup
            continue
        with suppress(ValueError):  # not the main thread: signals are not ours
            before[number] = signal.signal(number, hand_on)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _gone(code: int, signals: int, in_time: bool) -> Outcome:
    """A child that left no answer."""
    if signals:
        return Outcome(Ending.KILLED, "Interrupted before a trace could be written.", exit_code=130)
    if not in_time:
        return Outcome(
            Ending.LIMIT, "The limit of time was over, and no trace could be written.", exit_code=1
        )
    if code >= 0:
        return Outcome(
            Ending.CRASHED,
            f"The traced process ended by itself with exit code {code} and left no trace: the script may call "
            "os._exit; an error of Python stands above, if there is one.",
            exit_code=code or 1,
        )
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code == signal.SIGKILL:
        sentence = (
            "The traced process was killed (SIGKILL), most likely because the machine ran out of memory: `dmesg` says "
            "so. There is no trace. Fewer or smaller tensors on the CPU need less."
        )
        return Outcome(Ending.KILLED, sentence, exit_code=128 - code)
    sentence = (
        f"The traced process crashed ({name}): code in C, of the script's libraries or of PyTorch, failed. There is no "
        "trace. PYTHONFAULTHANDLER=1 shows where."
    )
    return Outcome(Ending.CRASHED, sentence, exit_code=128 - code)
