"""The new text of a file that a job is still writing."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path
from typing import BinaryIO

from oomph.evidence.sources import sniff

_MOST_AT_ONCE = 8 << 20
_LINE_END = re.compile(r"\r+\n")


class Follower:
    """Reads what is appended to `path`, which need not exist yet.

    `poll` never waits and never raises; the caller decides how often to call it. A file that is replaced (log
    rotation) or cut back (copytruncate) is read again from its beginning, after the rest of the old one.
    `line` is the 1-based number of the line that the next poll's text begins with; `restarts` counts beginnings after
    the first.
    """

    def __init__(self, path: str | os.PathLike[str], *, start: int = 0, line: int = 1) -> None:
        """Begins at byte `start`, which is in line `line`."""
        self._path = Path(path)
        self._start = start
        self._file: BinaryIO | None = None
        self._offset = 0
        self._decoder: codecs.IncrementalDecoder | None = None
        self._partial = ""
        self._next_line = line
        self.line = line
        self.restarts = 0

    def poll(self) -> str | None:
        """The complete lines that came since the last call, None when there are none. A last line without its end
        waits for it; `rest` gives it before."""
        text = self._partial + self._new_text()
        end = text.rfind("\n") + 1
        self._partial = text[end:]
        if end == 0:
            return None
        complete = _LINE_END.sub("\n", text[:end])
        self.line = self._next_line
        self._next_line += complete.count("\n")
        return complete

    def rest(self) -> str:
        """The unfinished last line. It is given out once: what a later poll brings goes on after it."""
        text, self._partial = self._partial, ""
        self.line = self._next_line
        return text

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_text(self) -> str:
        if self._file is None and not self._open():
            return ""
        text = self._read()
        if self._replaced():
            text += self._read() + self._finish()
            self._restart()
            if self._open():
                text += self._read()
        return text

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb", buffering=0)
        except (OSError, ValueError):
            return False
        self._offset = 0
        if self._start:
            size = os.fstat(self._file.fileno()).st_size
            self._offset = min(self._start, size)
            self._start = 0
            self._decoder = self._choose_decoder(self._file.read(4096) or b"")
            self._file.seek(self._offset)
        return True

    def _read(self) -> str:
        if self._file is None:
            return ""
        try:
            data = self._file.read(_MOST_AT_ONCE) or b""
        except OSError:
            return ""
        if not data:
            return ""
        if self._decoder is None:
            self._decoder = self._choose_decoder(data)
        first = self._offset == 0
        self._offset += len(data)
        text = self._decoder.decode(data).replace("\0", "")
        return text.removeprefix("\ufeff") if first else text

    @staticmethod
    def _choose_decoder(data: bytes) -> codecs.IncrementalDecoder:
        kind = sniff.sniff(data).kind
        encoding = kind if kind.startswith("utf-") else "utf-8"
        return codecs.getincrementaldecoder(encoding)("replace")

    def _replaced(self) -> bool:
        """True when the path is another file now, or the file is shorter than what was read."""
        if self._file is None:
            return False
        try:
            here = os.fstat(self._file.fileno())
            there = self._path.stat()
        except OSError:  # between two files of a rotation; the next poll sees the new one
            return False
        if here.st_ino and (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            return True
        return there.st_size < self._offset

    def _finish(self) -> str:
        """What the decoder held back, and a line end: the old file's last line does not go on in the new one."""
        tail = self._decoder.decode(b"", final=True) if self._decoder is not None else ""
        return tail + "\n"

    def _restart(self) -> None:
        self.close()
        self._offset = 0
        self._decoder = None
        self.restarts += 1
