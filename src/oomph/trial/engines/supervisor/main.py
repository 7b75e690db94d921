"""The program: reads what to run, forks the watcher, and guards it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from types import FrameType
from typing import Any

from oomph.trial.engines.supervisor.tree import become_subreaper, end_all, send
from oomph.trial.engines.supervisor.watch import Watch

#: The first bytes of what is sent: how many bytes of JSON follow, in decimal.
HEADER_BYTES = 20


def main() -> None:
    """Runs what standard input says (a header, then JSON), and prints how it ended as one line of JSON."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Handlers and not SIG_IGN, which the command would inherit. A terminal's keys are its runner's affair.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _nothing)
    header = _read(HEADER_BYTES)
    body = _read(int(header)) if header else b""
    if not body:
        return
    become_subreaper()
    watcher = os.fork()
    if watcher == 0:
        try:
            _watch(json.loads(body))
        finally:
            os._exit(0)
    signal.signal(signal.SIGTERM, lambda _number, _frame: send([watcher], signal.SIGTERM))
    _guard(watcher)


def _watch(spec: dict[str, Any]) -> None:
    become_subreaper()
    wake, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _nothing)
    try:
        result = Watch(spec, wake).run()
    except BaseException as error:  # noqa: BLE001 - whatever goes wrong here, nothing may stay behind
        end_all(0.0, {})
        result = {
            "exit_code": None,
            "stopped": "lost",
            "why": f"watching it failed: {error!r}",
            "seconds": 0.0,
        }
    _answer(result)


def _guard(watcher: int) -> None:
    """Waits for the watcher; if it did not end by itself, ends what it left."""
    statuses: dict[int, int] = {}
    while watcher not in statuses:
        pid, status = os.waitpid(-1, 0)
        statuses[pid] = status
    end_all(1.0, statuses)
    if os.WIFSIGNALED(statuses[watcher]):
        why = f"the process that watched it was killed by signal {os.WTERMSIG(statuses[watcher])}"
        _answer({"exit_code": None, "stopped": "lost", "why": why, "seconds": 0.0})


def _read(wanted: int) -> bytes:
    """So many bytes, and none more: what follows is for the watcher. Empty where the other end has gone."""
    data = b""
    while len(data) < wanted:
        block = os.read(0, wanted - len(data))
        if not block:
            return b""
        data += block
    return data


def _answer(result: dict[str, Any]) -> None:
    data = json.dumps(result).encode() + b"\n"
    with contextlib.suppress(OSError):  # nobody may be there to hear it
        while data:
            data = data[os.write(1, data) :]


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass
