"""Run directories carried to another file system, and back.

A recorder appends to files, which object stores cannot: where a run is to be kept on one, it is recorded into a local
folder (`spool`), and `Mirror.push` copies what has changed, now and then and at the end. A copy is readable at any
time: it is the run as it was.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from oomph.errors import InputError
from oomph.evidence.run.model import RUN
from oomph.recording.store.folders import is_url
from oomph.recording.store.remote import file_system


class Mirror:
    """Copies a local run directory to `url`. Each file is written whole; files that did not change are not copied
    again. Several ranks may push into one directory: `wanted` says, by name, which files are a rank's to push."""

    def __init__(
        self, local: str | os.PathLike[str], url: str, wanted: Callable[[str], bool] = lambda _: True
    ) -> None:
        self.local, self.url = Path(local), url.rstrip("/")
        self._wanted = wanted
        self._system, self._root = file_system(self.url)
        self._sent: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    @property
    def files(self) -> int:
        """How many files the copy has from here."""
        return len(self._sent)

    def push(self) -> list[str]:
        """Copies what has changed; returns a sentence for each file that could not be, and raises nothing."""
        with self._lock:
            problems = []
            for path in sorted(self.local.rglob("*")):
                problem = self._push_one(path)
                if problem:
                    problems.append(problem)
            return problems

    def _push_one(self, path: Path) -> str:
        try:
            if not path.is_file():
                return ""
            stat = path.stat()
            name, mark = path.relative_to(self.local).as_posix(), (stat.st_size, stat.st_mtime_ns)
            if self._sent.get(name) == mark or not self._wanted(name):
                return ""
            target = f"{self._root}/{name}"
            if name == RUN and self._system.exists(target):
                self._sent[name] = mark  # another rank was first
                return ""
            self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(path), target)
            self._sent[name] = mark
        except Exception as error:  # noqa: BLE001 - drivers raise what their service's library raises
            return f"{path.name} was not copied to {self.url}: {type(error).__name__}: {str(error)[:200]}"
        return ""


def spool(url: str) -> tuple[Path, Mirror]:
    """A new local folder to record into, and the mirror that carries it to `url`. Raises UsageError for a URL that
    fsspec cannot serve."""
    file_system(url)
    folder = Path(tempfile.mkdtemp(prefix="oomph-run-"))
    return folder, Mirror(folder, url)


def copy(source: str, target: str) -> int:
    """Copies a run directory between any two places; returns how many files. Raises InputError where one of them could
    not be copied."""
    from oomph.recording.store.folders import folder

    if not is_url(source) and is_url(target):
        mirror = Mirror(source, target)
        problems = mirror.push()
        if problems:
            raise InputError(problems[0])
        return mirror.files
    count = 0
    files = folder(source).files(source)
    system, root = file_system(target) if is_url(target) else (None, str(Path(target).expanduser()))
    for name in _walk(files, ""):
        with files.open(name) as stream:
            data = stream.read()
        path = f"{root}/{name}"
        if system is not None:
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(path, data)
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(data)
        count += 1
    with suppress(OSError):
        if count == 0:
            raise InputError(f"{source}: there is nothing to copy")
    return count


def _walk(files: object, folder: str) -> list[str]:
    """All files below a folder, by name."""
    from oomph.evidence.run.files import Files

    held: Files = files  # type: ignore[assignment] # a Files, as folder().files() gives it
    result = []
    for name in held.ls(folder):
        path = f"{folder}/{name}" if folder else name
        if held.size(path) is not None:
            result.append(path)
        elif path.count("/") < 4:
            result += _walk(held, path)
    return result
