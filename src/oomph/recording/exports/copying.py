"""The run directory itself, copied to another file system while the job runs: each rank its own files."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from oomph.evidence.run.model import End, Header, OomRecord, Run, rank_name
from oomph.recording.listeners import Silent
from oomph.recording.store.mirror import Mirror
from oomph.recording.store.remote import file_system

#: Seconds between two copies, and how long the end of the job waits for the last one.
_EVERY, _PATIENCE = 30.0, 120.0
_RANK = re.compile(r"rank-\d+")


class Copy(Silent):
    """A listener that pushes in a thread of its own: no step waits for a network. `url` with a slash at its end:
    below it, under the run's own name. Raises UsageError for a URL that fsspec cannot serve."""

    def __init__(self, url: str, every: float = _EVERY) -> None:
        file_system(url)
        self._url, self._every = url, every
        self._mirror: Mirror | None = None
        self._now, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._problems: list[str] = []

    def begin(self, run: Run, header: Header) -> None:
        """Begins to copy. Raises RuntimeError where the run has no directory."""
        if self._thread is not None:
            return
        if not run.directory or not Path(run.directory).is_dir():
            raise RuntimeError("the run has no directory that could be copied")
        url = self._url + Path(run.directory).name if self._url.endswith("/") else self._url
        mine = rank_name(header.rank)

        def is_mine(name: str) -> bool:
            of_rank = _RANK.search(name)
            return header.rank == 0 if of_rank is None else of_rank[0] == mine

        self._mirror = Mirror(run.directory, url, is_mine)
        self._thread = threading.Thread(target=self._copy, name="oomph-copy", daemon=True)
        self._thread.start()

    def oom(self, record: OomRecord) -> None:
        """Copies at once: the process may die."""
        del record
        self._now.set()

    def end(self, record: End) -> None:
        """Copies for the last time, and waits for it. Raises RuntimeError for what could not be copied."""
        del record
        if self._thread is None:
            return
        self._over.set()
        self._now.set()
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise RuntimeError(f"copying to {self._url} took too long: the copy is not whole")
        if self._problems:
            raise RuntimeError(self._problems[0])

    def _copy(self) -> None:
        """Until the end, and once after it. What could not be copied is tried again with the next."""
        assert self._mirror is not None
        while True:
            over = self._over.is_set()
            self._problems = self._mirror.push()
            if over:
                return
            self._now.wait(self._every)
            self._now.clear()
