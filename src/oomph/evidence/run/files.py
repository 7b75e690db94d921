"""Where the files of a run are: a folder here, or anything else that can list and open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Protocol

from oomph.evidence.run.model import END, RANKS, RUN


def host_file(host: str) -> str:
    """A host's name as the names of files have it."""
    name = "".join(one if one.isalnum() or one in "._-" else "-" for one in host)
    return name.strip(".")[:100] or "host"


class Files(Protocol):
    """The files below a run directory, by names with forward slashes ("ranks/rank-00003.jsonl")."""

    #: How the user names the directory.
    path: str

    def open(self, name: str) -> BinaryIO:
        """For reading. Raises OSError."""

    def ls(self, folder: str) -> list[str]:
        """The names (not paths) in a folder below the run, "" for the run itself; none where it is not there. Raises
        nothing."""

    def size(self, name: str) -> int | None:
        """Bytes of a file, None where it is not there. Raises nothing."""


class LocalFiles:
    """A run directory on a file system of this machine."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._root = Path(self.path)

    def open(self, name: str) -> BinaryIO:
        """For reading; see `Files`."""
        path = self._root / name
        if not path.is_file():  # a pipe or a device would never end
            raise FileNotFoundError(2, "no such file", str(path))
        return path.open("rb")

    def ls(self, folder: str) -> list[str]:
        """The names in a folder; see `Files`."""
        try:
            return sorted(os.listdir(self._root / folder))  # noqa: PTH208 - names, not paths
        except OSError:
            return []

    def size(self, name: str) -> int | None:
        """Bytes of a file; see `Files`."""
        try:
            path = self._root / name
            return path.stat().st_size if path.is_file() else None
        except OSError:
            return None


def files_of(path: str | os.PathLike[str] | Files) -> Files:
    """`path` as files: one that can list and open already, or a folder of this machine."""
    return LocalFiles(path) if isinstance(path, (str, os.PathLike)) else path


def looks_like_run(files: Files) -> bool:
    """Whether the directory has what a run directory has: run.json, or records of ranks. Reads no record."""
    names = set(files.ls(""))
    if RUN in names and (RANKS in names or END in names or _states_run(files)):
        return True
    return RANKS in names and any(
        name.startswith("rank-") and name.endswith(".jsonl") for name in files.ls(RANKS)
    )


def _states_run(files: Files) -> bool:
    try:
        with files.open(RUN) as file:
            head = file.read(4096)
    except OSError:
        return False
    return b'"version"' in head and b'"started"' in head
