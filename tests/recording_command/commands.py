"""`oomph record` as a process of its own, as a shell starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from oomph.evidence.run.model import RunEnd

#: Without this machine's GPUs and without a second look: what is tested is the command.
RECORD = (sys.executable, "-m", "oomph", "record", "-q", "--no-explain", "--every", "0")


def start(run: Path, *command: str, options: tuple[str, ...] = (), **keywords) -> subprocess.Popen:
    """The command under `oomph record`, with its run in `run`."""
    words = [*RECORD, "--run-dir", str(run), *options, "--", *command]
    return subprocess.Popen(words, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords})


def record(run: Path, *command: str, options: tuple[str, ...] = (), data: bytes | None = None, **keywords):
    """(exit code, stdout, stderr) of a command that ends by itself."""
    stdin = subprocess.PIPE if data is not None else subprocess.DEVNULL
    with start(run, *command, options=options, stdin=stdin, **keywords) as process:
        out, err = process.communicate(data, timeout=120)
    return process.returncode, out, err


def python(code: str) -> tuple[str, ...]:
    """A command of Python without a site's hooks."""
    return sys.executable, "-S", "-c", code


def end_of(run: Path) -> RunEnd:
    return msgspec.json.decode((run / "end.json").read_bytes(), type=RunEnd)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
