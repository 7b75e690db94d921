"""What a command prints: two files, and what is kept of them where they grow without end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

#: fallocate(2): give the blocks of a range back to the disk; the file stays as long as it is.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
#: What is kept of a stream that does not end: its beginning and its end.
KEPT_HEAD_BYTES, KEPT_TAIL_BYTES = 1 << 20, 32 << 20


class Streams:
    """`out.txt` and `err.txt` of a folder.

    The middle of a file that grows without end is given back to the disk while it grows, without anything being moved:
    neither the command nor a reader of the end notices. After the command it is cut out. Where the file system cannot
    do that, the files grow, and the limit on the disk holds.
    """

    def __init__(self, folder: str) -> None:
        self._paths = [os.path.join(folder, name) for name in ("out.txt", "err.txt")]
        # Appending: processes that print at the same time do not overwrite each other.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self.files = [os.open(path, flags, 0o644) for path in self._paths]
        self._hole_ends = [KEPT_HEAD_BYTES, KEPT_HEAD_BYTES]
        self._can = sys.platform == "linux"

    def thin(self) -> None:
        """Gives back the middle of what is too long by now."""
        for index, file in enumerate(self.files):
            begin, end = self._hole_ends[index], os.fstat(file).st_size - KEPT_TAIL_BYTES
            if self._can and end - begin > KEPT_TAIL_BYTES:
                self._can = _punch(file, begin, end - begin)
                if self._can:
                    self._hole_ends[index] = end

    def close(self) -> None:
        """After the command's end: files without holes, that say what is missing."""
        for path, file, end in zip(self._paths, self.files, self._hole_ends, strict=True):
            with contextlib.suppress(OSError):
                os.close(file)
                if end > KEPT_HEAD_BYTES:
                    _cut(path, end)


def _punch(file: int, begin: int, length: int) -> bool:
    try:
        call = ctypes.CDLL(None).fallocate
    except (OSError, AttributeError):
        return False
    return bool(call(file, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(begin), ctypes.c_int64(length)) == 0)


def _cut(path: str, hole_end: int) -> None:
    with open(path, "r+b") as file:
        file.seek(hole_end)
        tail = file.read()
        missing = hole_end - KEPT_HEAD_BYTES
        file.seek(KEPT_HEAD_BYTES)
        file.write(f"\n[oomph: {missing} bytes of what was printed are left out here]\n".encode() + tail)
        file.truncate()
