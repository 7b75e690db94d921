"""What the parent asks of the child, and what the child answers: JSON files."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import msgspec

from oomph.errors import InputError
from oomph.tracing.settings import TraceSettings
from oomph.tracing.target.model import Target


class Ending(str, Enum):
    """How the script ended. FINISHED: by itself, without an exception or with `sys.exit(0)`. EXITED: `sys.exit` with
    anything else. STEPS: the wanted optimizer steps are done. LIMIT: the limit of time or operators. GPU_CODE: code
    that runs on a real GPU only. REFUSED: oomph cannot trace this. CRASHED, KILLED: the process is gone, without a
    trace."""

    FINISHED = "finished"
    EXITED = "exited"
    STEPS = "steps"
    OUT_OF_MEMORY = "out of memory"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LIMIT = "limit"
    GPU_CODE = "gpu code"
    REFUSED = "refused"
    CRASHED = "crashed"
    KILLED = "killed"


@dataclass(frozen=True)
class Limits:
    """Where a script that does not end is stopped; None is no limit. `operators` counts what runs on the device, and
    is looked at every 4,096 of them."""

    operators: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Request:
    """A script to trace. `folder` is where it runs, `out` the file that the trace is written to, `outcome` the one
    for the Outcome (empty: the one who starts the child chooses). `local_world` is the number of processes on one
    machine, None where nothing says so. `expects_full`: memory that runs out is one answer of a search, whose traceback
    nobody wants to see."""

    target: Target
    settings: TraceSettings
    folder: str
    out: str
    outcome: str = ""
    limits: Limits = field(default_factory=Limits)
    local_world: int | None = None
    expects_full: bool = False


@dataclass(frozen=True)
class Outcome:
    """How it went. `sentence` says it in words; empty where there is nothing to say. `exit_code` is what the script
    would have ended with. `traced`: the trace was written. `kind` and `text` are the exception's where one ended the
    script; its traceback is in the trace. `peak_host_bytes` is the most memory that the child itself took."""

    ending: Ending
    sentence: str = ""
    exit_code: int = 0
    traced: bool = False
    kind: str = ""
    text: str = ""
    steps_done: int = 0
    seconds: float = 0.0
    peak_host_bytes: int | None = None


def write(what: Request | Outcome, path: Path) -> None:
    """Writes it whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(msgspec.json.encode(what))
    temporary.replace(path)


def read_request(path: Path) -> Request:
    """Raises InputError for what is no request."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Request)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} is no request for a trace: {error}") from None


def read_outcome(path: Path) -> Outcome | None:
    """None where the child wrote none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Outcome)
    except (OSError, msgspec.MsgspecError):
        return None
