"""The folder of a search: what is searched, and every trial that has ended, so that the same command goes on.

oomph-bisect/NAME/
  search.json      what is searched, and its key: a changed command or parameter is another search
  trials.jsonl     one TrialResult a line, on the disk before the next trial begins
  lock             held while a search goes on
  trial-001/       one trial: its run directory `run/`, out.txt, err.txt
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from oomph.errors import InputError, OomphError, UsageError
from oomph.trial.model import TrialOutcome, TrialResult, Value

SEARCH, TRIALS, LOCK = "search.json", "trials.jsonl", "lock"
FOLDER = "oomph-bisect"
_VERSION = 1
#: Lines longer than this were not written by us.
_MOST_LINE = 1 << 22


class State:
    """One search's folder. Use as a context manager: it holds the lock. Raises UsageError where another search has the
    folder, or the same one goes on; OomphError where it cannot be written (a full disk)."""

    def __init__(self, folder: Path, search: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.folder = folder
        self._search = {"version": _VERSION, "key": key_of(search), **search}
        self._lock: int | None = None
        self.results: list[TrialResult] = []
        self._begin(fresh)

    def _begin(self, fresh: bool) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            if fresh:
                self._empty()
            self._own()
            self.results = self._read()
        except OSError as error:
            self.close()
            raise _cannot(error, self.folder) from error
        except OomphError:
            self.close()
            raise

    def _take_lock(self) -> None:
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            import fcntl
        except ImportError:  # Windows: two at once are not noticed
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{self.folder}: this search goes on in another process; wait for it, or give this one another --name."
            ) from None

    def _empty(self) -> None:
        (self.folder / SEARCH).unlink(missing_ok=True)
        (self.folder / TRIALS).unlink(missing_ok=True)
        for path in self.folder.glob("trial-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _own(self) -> None:
        """The folder is this search's, or becomes it."""
        path = self.folder / SEARCH
        if path.exists():
            try:
                found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError):
                found = {}
            if found and found.get("version") != _VERSION:
                raise UsageError(
                    f"{self.folder} is of another version of oomph: give --name another one, or --fresh to start over."
                )
            if found.get("key") != self._search["key"]:
                raise UsageError(
                    f"{self.folder} has another search ({_named(found)}): give --name another one, or --fresh to start "
                    "over."
                )
            return
        if (self.folder / TRIALS).exists():
            raise UsageError(
                f"{self.folder} has trials of an unknown search: give --name another one, or --fresh."
            )
        _write(path, msgspec.json.format(msgspec.json.encode(self._search), indent=1) + b"\n")

    def _read(self) -> list[TrialResult]:
        found: list[TrialResult] = []
        path = self.folder / TRIALS
        if not path.exists():
            return found
        with path.open("rb") as file:
            while line := file.readline(_MOST_LINE):
                # The last one is torn where the disk was full.
                with contextlib.suppress(msgspec.DecodeError, RecursionError):
                    found.append(msgspec.json.decode(line, type=TrialResult))
        return found

    def add(self, result: TrialResult) -> None:
        """Keeps a trial's result, on the disk. Raises OomphError where that is full."""
        self.results.append(result)
        line = msgspec.json.encode(result) + b"\n"
        path = self.folder / TRIALS
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":
                    line = b"\n" + line  # what was torn stays alone on its line
                view = memoryview(line)
                while view:
                    view = view[os.write(file, view) :]
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise _cannot(error, path) from error

    def results_for(self, setting: Mapping[str, Value]) -> list[TrialResult]:
        """Trials of that setting that ended by themselves, the first one first."""
        return [
            one
            for one in self.results
            if dict(one.setting) == dict(setting) and one.outcome is not TrialOutcome.CANCELLED
        ]

    def next_folder(self) -> tuple[int, Path]:
        """The number of the next trial, and its empty folder. What an interrupted one left there goes. Raises
        OomphError."""
        number = max((one.number for one in self.results), default=0) + 1
        folder = self.folder / f"trial-{number:03d}"
        try:
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(parents=True)
        except OSError as error:
            raise _cannot(error, folder) from error
        return number, folder

    def close(self) -> None:
        """Gives the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def key_of(search: Mapping[str, Any]) -> str:
    """By what a search is known: all that its results depend on."""
    return hashlib.sha256(msgspec.json.encode(dict(sorted(search.items())))).hexdigest()[:16]


def name_of(command: Sequence[str], search: Mapping[str, Any]) -> str:
    """A search's name where none was given: its script's, and a part of its key."""
    stem = next((Path(word).stem for word in command if word.endswith(".py")), "") or Path(command[0]).stem
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", stem).strip("-.")[:40] or "search"
    return f"{plain}-{key_of(search)[:8]}"


def folder_named(folder: Path, name: str) -> Path:
    """The folder of a search by its name. Raises UsageError for a name that is a path."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,99}", name, re.ASCII):
        raise UsageError(f"--name {name[:60]!r}: letters, digits, dots, - and _ only.")
    return folder / name


def _named(found: Mapping[str, Any]) -> str:
    command = found.get("command")
    return " ".join(str(word) for word in command)[:120] if isinstance(command, list) else "it cannot be read"


def _write(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _cannot(error: OSError, path: Path) -> InputError:
    what = f"{error.filename or path}: cannot be written: {error.strerror or error}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            f"{what} What has ended is kept: make room (or give --folder on another disk), and the same command goes "
            "on."
        )
    return InputError(
        f"{what} Give --folder a place that can be written, or mend this one: with what is kept there the same command "
        "goes on."
    )
