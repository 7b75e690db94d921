"""Bytes of one input as a bounded stream of UTF-8: decompressed, and transcoded from UTF-16 where needed.

Every reader has `read(size)`, which returns at most about `size` bytes, and b"" at the end. What went wrong on the
way is a sentence in `notes`, never an exception: what could be read so far counts.
"""

from __future__ import annotations

import codecs
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from oomph.evidence.sources import sniff

if TYPE_CHECKING:
    import zstandard

#: Compressed bytes handed to the zstd decoder at once. A block of 128 KiB can be four bytes long, so that this also
#: bounds what one call may return (16 MiB).
_ZSTD_PIECE = 512
_RAW_PIECE = 256 << 10


class Reader(Protocol):
    """Something with the `read` of a binary file. `readinto`, where there is one, saves a copy."""

    def read(self, size: int, /) -> bytes: ...


class Counted:
    """A raw binary file. Read errors end it with a note; `tick` is told the number of bytes of each read."""

    def __init__(self, raw: Reader, tick: Callable[[int], None], notes: list[str]) -> None:
        self._raw = raw
        self._tick = tick
        self._notes = notes

    def read(self, size: int, /) -> bytes:
        try:
            data = self._raw.read(size)
        except OSError as error:
            self._notes.append(f"reading stopped early: {error.strerror or error}")
            return b""
        if data:
            self._tick(len(data))
        return data or b""

    def readinto(self, view: memoryview, /) -> int:
        try:
            size = _read_some(self._raw, view)
        except OSError as error:
            self._notes.append(f"reading stopped early: {error.strerror or error}")
            return 0
        if size:
            self._tick(size)
        return size


def _read_some(reader: Reader, view: memoryview) -> int:
    readinto = getattr(reader, "readinto", None)
    if readinto is not None:
        return int(readinto(view) or 0)
    data = reader.read(len(view))
    view[: len(data)] = data
    return len(data)


def fill(reader: Reader, view: memoryview) -> int:
    """Fills `view` from `reader`; fewer bytes than it holds only at the end of the stream."""
    have = 0
    while have < len(view):
        size = _read_some(reader, view[have:])
        if not size:
            break
        have += size
    return have


class Pushed:
    """A reader whose first bytes were looked at already."""

    def __init__(self, head: bytes, rest: Reader) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        if len(self._head):
            data = bytes(self._head[:size])
            self._head = self._head[size:]
            return data
        return self._rest.read(size)

    def readinto(self, view: memoryview, /) -> int:
        size = min(len(self._head), len(view))
        if not size:
            return _read_some(self._rest, view)
        view[:size] = self._head[:size]
        self._head = self._head[size:]
        return size


class _Buffered(ABC):
    """Gives out at most `size` bytes of what `_more` produces."""

    def __init__(self) -> None:
        self._pending = b""
        self._at = 0

    @abstractmethod
    def _more(self, size: int) -> bytes:
        """The next bytes, about `size` of them; none at the end."""

    def read(self, size: int, /) -> bytes:
        if self._at >= len(self._pending):
            self._pending = b""  # let go of it before the next comes
            self._pending, self._at = self._more(size), 0
        data = self._pending[self._at : self._at + size]
        self._at += len(data)
        return data


class Gunzip(_Buffered):
    """Gzip, any number of members."""

    def __init__(self, raw: Reader, notes: list[str]) -> None:
        super().__init__()
        self._raw = raw
        self._notes = notes
        self._member = zlib.decompressobj(wbits=31)
        self._input = b""
        self._started = False
        self._done = False

    def _more(self, size: int) -> bytes:
        while not self._done:
            if not self._input:
                self._input = self._raw.read(_RAW_PIECE)
                if not self._input:
                    self._done = True
                    if self._started:
                        self._notes.append("the gzip stream is cut short: the text up to the cut was read")
                    return b""
            if not self._started and not self._next_member():
                return b""
            try:
                data = self._member.decompress(self._input, size)
            except zlib.error as error:
                self._done = True
                self._notes.append(
                    f"the gzip stream is damaged ({error}): the text before the damage was read"
                )
                return b""
            if self._member.eof:
                self._input, self._started = self._member.unused_data, False
            else:
                self._input = self._member.unconsumed_tail
            if data:
                return data
        return b""

    def _next_member(self) -> bool:
        """Starts a member; False at the padding or junk that may follow the last one."""
        if len(self._input) < 2:
            self._input += self._raw.read(_RAW_PIECE)
        if not self._input.startswith(sniff.GZIP):
            self._done = True
            if self._input.strip(b"\0"):
                self._notes.append("something that is not gzip follows the gzip stream; it was not read")
            return False
        self._member = zlib.decompressobj(wbits=31)
        self._started = True
        return True


class Unzstd(_Buffered):
    """Zstandard, any number of frames."""

    def __init__(self, raw: Reader, notes: list[str]) -> None:
        super().__init__()
        self._raw = raw
        self._notes = notes
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._input = b""
        self._taken = 0
        self._done = False

    def _more(self, size: int) -> bytes:  # noqa: ARG002 (what a piece holds is bounded by the piece)
        import zstandard

        while not self._done:
            piece = self._input[self._taken : self._taken + _ZSTD_PIECE]
            self._taken += len(piece)
            if not piece:
                self._input, self._taken = self._raw.read(_RAW_PIECE), 0
                if not self._input:
                    self._done = True
                    if self._frame is not None:
                        self._notes.append("the zstd stream is cut short: the text up to the cut was read")
                continue
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            try:
                data = self._frame.decompress(piece)
            except (zstandard.ZstdError, MemoryError) as error:
                self._done = True
                self._notes.append(
                    f"the zstd stream is damaged ({error}): the text before the damage was read"
                )
                return b""
            if self._frame.eof:
                self._taken -= len(self._frame.unused_data)
                self._frame = None
            if data:
                return data
        return b""


class Transcoded(_Buffered):
    """UTF-16 or UTF-32 as UTF-8; a byte-order mark is dropped."""

    def __init__(self, raw: Reader, encoding: str) -> None:
        super().__init__()
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._first = True

    def _more(self, size: int) -> bytes:
        while True:
            data = self._raw.read(size)
            text = self._decoder.decode(data, final=not data)
            if self._first and text:
                text = text.removeprefix("\ufeff")
                self._first = False
            if text or not data:
                return text.encode("utf-8", "replace")


def read_fully(reader: Reader, size: int) -> bytes:
    """`size` bytes, fewer only at the end of the stream."""
    data = reader.read(size)
    if len(data) >= size or not data:
        return data
    parts = [data]
    have = len(data)
    while have < size:
        data = reader.read(size - have)
        if not data:
            break
        parts.append(data)
        have += len(data)
    return b"".join(parts)
