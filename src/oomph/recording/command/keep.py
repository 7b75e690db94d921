"""What a command prints, kept in files: the beginning and the end of it, all of it where it is not too much."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

Say = Callable[[str], None]

#: So much of what could not be written is held.
LOST_BYTES = 1 << 20


class KeptFile:
    """Appends to NAME.out; what does not fit into half of `most` goes to NAME-last.out, which becomes NAME-before.out
    when it is a quarter of `most` long, so that the end is never lost. Nothing raises: what cannot be written is said
    once, and tried again with what comes next.
    """

    def __init__(self, folder: Path, stem: str, ending: str, most: int, say: Say) -> None:
        self._folder, self._stem, self._ending = folder, stem, ending
        self._half, self._quarter = max(1, most // 2), max(1, most // 4)
        self._say = say
        self._part = ""
        self._size = 0
        self._file: int | None = None
        self._told: set[int] = set()
        self.lost_bytes = 0
        #: The end of what could not be written: what is explained then, where the record cannot say it.
        self.lost_end = b""

    def write(self, data: bytes) -> None:
        """Appends; never raises."""
        view = memoryview(data)
        while view:
            room = (self._half if not self._part else self._quarter) - self._size
            if room <= 0:
                self._turn()
                continue
            written = self._append(view[:room])
            if not written:
                self.lost_bytes += len(view)
                self.lost_end = (self.lost_end + bytes(view))[-LOST_BYTES:]
                return
            view = view[written:]

    def _append(self, data: memoryview) -> int:
        """How much could be written; 0 for nothing."""
        try:
            if self._file is None:
                self._file = os.open(
                    self._path(self._part), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
                )
            written = os.write(self._file, data)
        except OSError as error:
            self._trouble(error)
            return 0
        self._size += written
        return written

    def _path(self, part: str) -> Path:
        return self._folder / f"{self._stem}{part}{self._ending}"

    def _turn(self) -> None:
        """Begins the next part."""
        self.close()
        with contextlib.suppress(OSError):
            if self._part:
                self._path(self._part).replace(self._path("-before"))
        self._part, self._size = "-last", 0

    def _trouble(self, error: OSError) -> None:
        code = error.errno or 0
        if code in self._told:
            return
        self._told.add(code)
        what = "the disk is full" if code in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        self._say(f"the command's output is not kept in {self._path(self._part)}: {what}")

    def close(self) -> None:
        """Closes the file; a later write opens the next."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None
