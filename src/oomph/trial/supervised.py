"""What every engine does with a task, wherever it runs it: the supervisor's command line, and what it left."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from oomph.errors import OomphError
from oomph.trial import supervise
from oomph.trial.engine import Finished, Task

#: Stopped for these reasons; anything else that a file says is no reason of the supervisor's.
_STOPPED = frozenset(("", "seconds", "memory", "disk", "cancelled"))


def supervised(task: Task, *, python: str = sys.executable) -> list[str]:
    """The command that runs a task within its limits and leaves `ended.json` in its folder. It does not hand on
    `task.environment`: whoever starts it gives it that environment. Raises OomphError where the folder takes no file.
    """
    content = {
        "command": list(task.command),
        "working_directory": str(task.working_directory),
        "mark": mark_of(task),
        "seconds": task.limits.seconds,
        "memory_bytes": task.limits.memory_bytes,
        "disk_bytes": task.limits.disk_bytes,
        "free_disk_bytes": task.limits.free_disk_bytes,
    }
    path = task.folder / supervise.TASK
    try:
        task.folder.mkdir(parents=True, exist_ok=True)
        (task.folder / supervise.ENDED).unlink(missing_ok=True)
        path.write_text(json.dumps(content), "utf-8")
    except OSError as error:
        raise OomphError(
            f"{path}: cannot be written: {error.strerror or error}. Make room or choose another folder with --folder; "
            "the same command goes on where it was."
        ) from error
    return [python, "-I", "-S", str(Path(supervise.__file__).resolve()), str(path)]


def mark_of(task: Task) -> str:
    """By what every process of the task is known: OOMPH_TRIAL in its environment."""
    return str(task.folder.resolve())


def finished_of(task: Task) -> Finished | None:
    """How a task ended by its `ended.json`; None while there is none. A signal N that ended it is 128 + N."""
    try:
        found = json.loads((task.folder / supervise.ENDED).read_text("utf-8"))
        code, stopped = found["exit_code"], str(found["stopped"])
        seconds, why = float(found["seconds"]), str(found["why"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(code, int):
        code = None
    elif code < 0:
        code = 128 - code
    return Finished(task, code, stopped if stopped in _STOPPED else "", why, seconds)
