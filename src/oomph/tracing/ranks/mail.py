"""Objects that one traced rank sent, for ranks that are traced after it.

Ranks are traced one after another, each in a process of its own. Where `OOMPH_TRACE_MAIL` names a folder, what a rank
sends or broadcasts as Python objects stays there, and a later rank receives it: so stage 2 of a pipeline knows the
shapes that stage 1 hands on.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: The variable that names the folder. Whoever sets it makes the folder, private, and takes it away again.
VARIABLE = "OOMPH_TRACE_MAIL"


@contextmanager
def carried(folder: Path) -> Iterator[None]:
    """Processes that are started inside have this private folder for their mail."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


class Mail:
    """One process's view of the folder. The n-th object of a kind that is posted is the n-th that is taken."""

    def __init__(self, folder: str | None = None) -> None:
        named = os.environ.get(VARIABLE) if folder is None else folder
        self._folder = Path(named) if named else None
        self._counts: dict[str, int] = {}
        self._outgoing: dict[Path, bytes] = {}

    def _next(self, way: str, kind: str) -> Path | None:
        if self._folder is None:
            return None
        count = self._counts[way + kind] = self._counts.get(way + kind, -1) + 1
        return self._folder / f"{kind}-{count}.pickle"

    def post(self, kind: str, content: Any) -> None:
        """Keeps `content` for whoever takes the same kind, until `deliver`. What cannot be pickled is not kept."""
        path = self._next("post ", kind)
        if path is None:
            return
        try:
            self._outgoing[path] = pickle.dumps(content)
        except Exception:  # noqa: BLE001 - the receiver then does without, and says so
            self._outgoing.pop(path, None)

    def deliver(self) -> None:
        """Writes what was posted: when the trace is over, because nothing is written while it runs."""
        for path, content in self._outgoing.items():
            path.write_bytes(content)
        self._outgoing.clear()

    def take(self, kind: str) -> tuple[Any, ...]:
        """The next object of the kind in a tuple, or an empty tuple."""
        path = self._next("take ", kind)
        if path is None or not path.is_file():
            return ()
        return (pickle.loads(path.read_bytes()),)  # noqa: S301 - written by this trace's own processes
