"""Run directories among the paths that are to be explained: what was printed is text, what was recorded is facts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from oomph.errors import InputError
from oomph.evidence.model import Evidence
from oomph.evidence.read import read
from oomph.evidence.run.data import RunData
from oomph.evidence.run.model import OOM, RANKS
from oomph.evidence.run.read import is_run, read_run
from oomph.evidence.sources import Elsewhere

#: Of a failed request, what is text: the rest is in the records.
_TEXTS = ("traceback.txt", "summary.txt")
#: So many entries of a folder are looked at.
_LOOKED_AT = 64
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}://", re.IGNORECASE)


def read_with_runs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    progress: Callable[[int, int], None] | None = None,
    elsewhere: Elsewhere | None = None,
) -> tuple[Evidence, tuple[RunData, ...]]:
    """The logs among `paths`, with the outputs and memory snapshots of the run directories, and the runs. A run without
    any output is no error: its records say enough. Raises InputError as `read`."""
    texts: list[str | os.PathLike[str]] = []
    runs: list[RunData] = []
    for path in paths:
        if is_run(path):
            runs.append(read_run(path))
            texts += texts_of(runs[-1])
        else:
            texts.append(path)
    if not texts:
        return Evidence(documents=(), recorded=True), tuple(runs)
    try:
        return replace(
            read(texts, stdin=stdin, progress=progress, elsewhere=elsewhere), recorded=True
        ), tuple(runs)
    except InputError as error:
        if len(runs) != len(paths):
            raise
        note = f"Of what was printed nothing could be read: {error}"
        return Evidence(documents=(), notes=(note,), recorded=True), tuple(runs)


def texts_of(run: RunData) -> list[str]:
    """The files of a run in which something is printed, and its memory snapshots. What is in a rank's own file is in
    that of the whole job too, where there is one; its lines name their ranks there."""
    names = [name for name in run.outputs if run.files.size(name)]
    names = [name for name in names if not name.startswith(f"{RANKS}/")] or names
    for folder in run.files.ls(OOM):
        names += [f"{OOM}/{folder}/{name}" for name in _TEXTS if run.files.size(f"{OOM}/{folder}/{name}")]
    return [str(Path(run.path) / name) for name in [*names, *run.snapshots]]


def refuse_other_places(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Raises InputError for what looks like a run and cannot be read as one: a folder of runs with nothing else in it,
    of which one has to be named, and a run on another file system."""
    for path in paths:
        name = os.fspath(path)
        if _URL.match(name):
            raise InputError(
                f"{name} is on another file system: copy it here first (oomph runs copy {name} FOLDER), and name the "
                "copy."
            )
        if os.path.isdir(name):  # noqa: PTH112 - a name that no system takes is no folder
            _refuse_folder_of_runs(Path(name))


def _refuse_folder_of_runs(folder: Path) -> None:
    """Looks at the newest entries only."""
    try:
        entries = sorted((one for one in folder.iterdir() if not one.name.startswith(".")), reverse=True)
    except (OSError, ValueError):
        return
    if any(one.is_file() for one in entries[:_LOOKED_AT]):
        return
    runs = [one for one in entries[:_LOOKED_AT] if is_run(one)]
    if runs:
        more = "several runs" if len(runs) > 1 else "a run"
        raise InputError(
            f"{folder} holds {more}: name one, such as {runs[0]} (`oomph runs list` lists them)."
        )
