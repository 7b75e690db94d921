"""Appends the records of one rank to its file, so that being killed at any moment costs at most the last one.

One `os.write` of one line for each record, on a file opened with O_APPEND: what the kernel has taken stays when the
process is killed. It reaches the disk within seconds: `flush` is called every few seconds by the recorder's own thread,
and records that matter (a failed request, a warning, the end) are flushed as they are written, unless that would hold
up a training step. No lock of a file system is used: each file has one writer.

Nothing here raises. What cannot be written (full disk, read-only folder, folder gone) is counted and told once; later
records are tried again, so that a disk that was full for an hour costs that hour.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from oomph.evidence.run.model import RANKS, Now, Record, rank_name
from oomph.evidence.run.now import encode_now, now_name

#: Records held in memory for an explanation where the folder takes none: the last ones of each kind matter.
_MOST_HELD = 4_000
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_NOW_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class Writer:
    """The file of one rank. `complain(sentence)` is called once for each kind of trouble.

    `directory` None: records are only held in memory. A forked child (a loader's worker) writes nothing.
    """

    def __init__(self, directory: Path | None, rank: int, complain: Callable[[str], None]) -> None:
        self.directory = directory
        self.rank = rank
        #: The last records, whether they could be written or not.
        self.held: deque[Record] = deque(maxlen=_MOST_HELD)
        #: Records that are in no file.
        self.lost = 0
        self._complain = complain
        self._complained: set[str] = set()
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._file: int | None = None
        self._now: int | None = None
        self._torn = False
        self._dirty = False
        self._closed = False
        if directory is not None:
            self._open()

    @property
    def path(self) -> Path | None:
        """The file; None where there is no folder."""
        return None if self.directory is None else self.directory / RANKS / f"{rank_name(self.rank)}.jsonl"

    def write(self, record: Record, *, durable: bool = False) -> bool:
        """Appends one record; False where it could not be. `durable`: on the disk before this returns."""
        if os.getpid() != self._pid:
            return False
        with self._lock:
            self.held.append(record)
            if self._closed or self.directory is None:
                self.lost += self.directory is not None
                return False
            try:
                line = self._encoder.encode(record) + b"\n"
            except (TypeError, ValueError, OverflowError) as error:
                self.lost += 1
                self._trouble("encode", f"a record could not be written: {error}")
                return False
            written = self._append(line)
            self.lost += not written
            if written and durable:
                self._sync()
            return written

    def now(self, now: Now) -> None:
        """Writes over what the rank is doing."""
        if self._now is None or os.getpid() != self._pid:
            return
        try:
            os.pwrite(self._now, encode_now(now), 0)
        except OSError as error:
            self._close_now()
            self._trouble("now", _sentence("what the rank is doing is no longer written", error))

    def flush(self) -> None:
        """To the disk, and a look whether the file is still there. Not for the thread that trains: it may take long."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            file, dirty, now = self._file, self._dirty, self._now
            self._dirty = False
        if now is not None:
            with contextlib.suppress(OSError):
                os.fsync(now)  # hosts that share the folder see what this rank is doing
        if file is None:
            return
        try:
            gone = os.fstat(file).st_nlink == 0
            if dirty and not gone:
                os.fsync(file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EBADF):
                self._trouble("fsync", _sentence("records could not be flushed", error))
            return
        if gone:
            with self._lock:
                self._close_files()
            self._trouble("gone", f"{self.path} is gone: records are kept in memory only")

    def close(self) -> None:
        """Flushes and closes. Later records are held only."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._sync()
            self._close_files()
            self._closed = True

    def _open(self) -> None:
        path = self.path
        assert path is not None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, _FLAGS, 0o644)
            self._torn = _ends_torn(path)
        except OSError as error:
            self._trouble(
                "open", _sentence(f"{path} cannot be written, records are kept in memory only", error)
            )
            return
        if not hasattr(os, "pwrite"):
            return  # Windows: a record of what goes on now is left out
        try:
            assert self.directory is not None
            self._now = os.open(self.directory / now_name(self.rank), _NOW_FLAGS, 0o644)
        except OSError as error:
            self._trouble("now", _sentence("what the rank is doing cannot be written", error))

    def _append(self, line: bytes) -> bool:
        if self._file is None:
            return False
        if self._torn:
            line = b"\n" + line
        try:
            taken = os.write(self._file, line)
        except OSError as error:
            self._trouble(f"write {error.errno}", _sentence(f"{self.path}: records are lost", error))
            return False
        if taken != len(line):
            self._torn = True
            self._trouble("short", f"{self.path}: a record was cut off (is the disk full?)")
            return False
        self._torn = False
        self._dirty = True
        return True

    def _sync(self) -> None:
        if self._file is None:
            return
        try:
            os.fsync(self._file)
            self._dirty = False
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EBADF):  # a pipe or a device has nothing to flush
                self._trouble("fsync", _sentence("records could not be flushed", error))

    def _close_files(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            _close(file)
        self._close_now()

    def _close_now(self) -> None:
        if self._now is not None:
            file, self._now = self._now, None
            _close(file)

    def _trouble(self, kind: str, sentence: str) -> None:
        if kind not in self._complained:
            self._complained.add(kind)
            self._complain(sentence)


def _close(file: int) -> None:
    with contextlib.suppress(OSError):  # a network's full disk may only be told now; nothing is left to do
        os.close(file)


def _ends_torn(path: Path) -> bool:
    """Whether the last line of what was there has no end (its writer was killed)."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False


def _sentence(what: str, error: OSError) -> str:
    return f"{what}: {error.strerror or error}"


def create_once(path: Path, content: bytes) -> bool:
    """Writes a file that nobody has written yet: whoever comes first wins. False where it is there already.

    Raises OSError where it can be neither written nor found.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
    except FileExistsError:
        return False
    try:
        os.write(file, content)
    finally:
        os.close(file)
    return True
