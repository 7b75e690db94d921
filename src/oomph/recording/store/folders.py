"""Folders of run directories: on this machine, or on any file system that fsspec knows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from oomph.errors import InputError
from oomph.evidence.run.files import Files, LocalFiles, looks_like_run
from oomph.evidence.run.model import END, FINGERPRINT, RANKS, RUN

#: How deep runs may lie below a folder: oomph-runs/EXPERIMENT/RUN.
_DEEPEST = 2
#: Entries of one folder that are looked at.
_MOST = 20_000


@dataclass(frozen=True)
class Found:
    """A run directory: where it is, how it can be read, and a text that changes whenever it does."""

    path: str
    files: Files
    stamp: str


class Folder(Protocol):
    """A place with run directories below it, or one run directory."""

    #: As the user gave it.
    path: str

    def runs(self) -> Iterator[Found]:
        """Every run directory below it."""

    def files(self, path: str) -> Files:
        """The files of one run directory, there or not."""


def folder(path: str | os.PathLike[str]) -> Folder:
    """The folder of that path. A URL ("s3://bucket/runs", "memory://runs") needs fsspec: UsageError without it."""
    text = os.fspath(path)
    if is_url(text):
        from oomph.recording.store.remote import RemoteFolder

        return RemoteFolder(text)
    return LocalFolder(text.removeprefix("file://"))


def is_url(path: str) -> bool:
    """Whether a path is one of another file system than this machine's."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.lower() != "file" and scheme.replace("+", "").isalnum()


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path

    def runs(self) -> Iterator[Found]:
        """Every run directory below it; see `Folder`. A folder that is not there has none."""
        yield from self._below(Path(self.path).expanduser().resolve(), 0)

    def files(self, path: str) -> Files:
        """See `Folder`."""
        return LocalFiles(path)

    def _below(self, path: Path, depth: int) -> Iterator[Found]:
        files = LocalFiles(path)
        if looks_like_run(files):
            yield Found(str(path), files, local_stamp(path))
            return
        if depth >= _DEEPEST:
            return
        try:
            with os.scandir(path) as entries:
                names = sorted(
                    each.path for _, each in zip(range(_MOST), entries, strict=False) if _is_folder(each)
                )
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if depth == 0:
                raise InputError(f"{path}: cannot be listed: {error.strerror or error}") from None
            return
        for name in names:
            yield from self._below(Path(name), depth + 1)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and not entry.name.startswith(".")
    except OSError:
        return False


def local_stamp(path: Path) -> str:
    """A hash of names, sizes and times of what a run's facts are read from."""
    digest = hashlib.sha256()
    for name in (RUN, END):
        digest.update(_of_file(path / name))
    for part in (RANKS, FINGERPRINT, "gpus"):
        try:
            with os.scandir(path / part) as entries:
                for entry in sorted(entries, key=lambda each: each.name):
                    if entry.name.endswith((".json", ".jsonl")):
                        stat = entry.stat()
                        digest.update(f"{part}/{entry.name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
        except OSError:
            continue
    return digest.hexdigest()[:32]


def _of_file(path: Path) -> bytes:
    try:
        stat = path.stat()
    except OSError:
        return f"{path.name} none\0".encode()
    return f"{path.name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode()
