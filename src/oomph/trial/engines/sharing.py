"""Whether the machine that runs a task sees the folder that whoever asked for it sees."""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path

from oomph.errors import OomphError
from oomph.trial.engine import Task

#: In the folder of a task: what whoever asked for it wrote, and the machine that runs it has to find.
_NAME = "engine.json"
#: File servers may show a new file late (acregmax of nfs(5) is 60 s; a name that was never asked for comes sooner).
_LATE_SECONDS = 30.0
_TURN_SECONDS = 0.5


def leave_word(task: Task, engine: str) -> str:
    """Writes a word into the task's folder, for `missing_word`. Raises OomphError where the folder takes no file."""
    word = secrets.token_hex(8)
    path = task.folder / _NAME
    try:
        path.write_text(json.dumps({"engine": engine, "word": word}), "utf-8")
    except OSError as error:
        raise OomphError(
            f"{path}: cannot be written: {error.strerror or error}. Make room or choose another folder with --folder; "
            "the same command goes on where it was."
        ) from error
    return word


def missing_word(task: Task, word: str, *, seconds: float = _LATE_SECONDS) -> str:
    """On the machine that runs the task: "" where the word is found, else a sentence that says what is missing."""
    host = os.uname().nodename
    until = time.monotonic() + seconds
    while True:
        try:
            if json.loads((task.folder / _NAME).read_text("utf-8"))["word"] == word:
                break
        except (OSError, ValueError, KeyError, TypeError):
            pass
        if time.monotonic() > until:
            return f"{host} does not see {task.folder}: the folder has to be on a file system that all nodes share"
        time.sleep(_TURN_SECONDS)
    if not Path(task.working_directory).is_dir():
        return f"{host} does not see {task.working_directory}, where the command is to run"
    return ""
