"""A snapshot file's bytes, decompressed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from oomph.errors import InputError
from oomph.evidence.snapshot.caps import Caps
from oomph.evidence.sources.sniff import GZIP, ZSTD
from oomph.evidence.sources.streams import Gunzip, Notes, Pushed, Reader
from oomph.evidence.sources.unzstd import Unzstd
from oomph.units import format_bytes

_PIECE = 1 << 20


@contextmanager
def contents(path: str | os.PathLike[str], caps: Caps) -> Iterator[tuple[BinaryIO, int]]:
    """The file's content, unpacked if it is gzip or zstd, and how many bytes that is. A plain file is read by whoever
    asks for it, piece by piece. Raises InputError when it cannot be read or is too large.
    """
    name = os.fspath(path)
    try:
        with _opened(Path(path)) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(4)
            if head.startswith((GZIP, ZSTD)):
                data = _unpacked(head, file, name, size, caps)
            elif not file.seekable():
                data = _limited(Pushed(head, file), name, caps.file_bytes)
            else:
                if size > caps.file_bytes:
                    raise InputError(_too_large(name, caps.file_bytes))
                file.seek(0)
                yield file, size
                return
            yield io.BytesIO(data), len(data)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from None


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{os.fspath(path)!r} cannot be read: {error}.") from None


def _unpacked(head: bytes, file: BinaryIO, name: str, size: int, caps: Caps) -> bytes:
    notes = Notes()
    raw = Pushed(head, file)
    reader: Reader = Gunzip(raw, notes) if head.startswith(GZIP) else Unzstd(raw, notes)
    most = min(caps.file_bytes, max(caps.unpack_floor_bytes, size * caps.unpack_ratio))
    data = _limited(reader, name, most)
    if notes.damage or (notes and not data):
        # Of a log, what could be read counts; of a pickle, all or nothing.
        raise InputError(f"{name} cannot be unpacked: {notes[-1].partition(': ')[0]}.")
    return data


def _limited(reader: Reader, name: str, most: int) -> bytes:
    """Everything, as long as it is at most `most` bytes."""
    parts = []
    have = 0
    while piece := reader.read(_PIECE):
        have += len(piece)
        if have > most:
            raise InputError(_too_large(name, most))
        parts.append(piece)
    return b"".join(parts)


def _too_large(name: str, most: int) -> str:
    return (
        f"{name} was refused: it holds more than {format_bytes(most)}, more than a snapshot of its kind has."
    )
