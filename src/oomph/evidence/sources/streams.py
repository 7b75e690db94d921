"""Bytes of one input as a bounded stream of UTF-8: decompressed, and transcoded from UTF-16 where needed.

Every reader has `read(size)`, which returns at most about `size` bytes, and b"" at the end. What went wrong on the
way is a sentence in `notes`, never an exception: what could be read so far counts.
"""

from __future__ import annotations

import codecs
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from oomph.evidence.sources import sniff

#: Compressed bytes that are read at once.
RAW_PIECE = 256 << 10

#: What is wrong with a text that could not be read to its end (`Notes.damage`).
CUT = "its end is missing"
DAMAGED = "it is damaged"
#: How the sentence about a failed read begins.
READ_ERROR = "reading stopped early"


class Notes(list[str]):
    """Sentences about one input. `damage` completes "what could be read of it: ..."; "" where all was read."""

    damage = ""

    def lost(self, sentence: str, damage: str) -> None:
        """Something of the input could not be read."""
        self.append(sentence)
        self.damage = damage


class Reader(Protocol):
    """Something with the `read` of a binary file. `readinto`, where there is one, saves a copy."""

    def read(self, size: int, /) -> bytes: ...


class Counted:
    """A raw binary file. Read errors end it with a note; `tick` is told the number of bytes of each read."""

    def __init__(self, raw: Reader, tick: Callable[[int], None], notes: Notes) -> None:
        self._raw = raw
        self._tick = tick
        self._notes = notes

    def read(self, size: int, /) -> bytes:
        try:
            data = self._raw.read(size)
        except OSError as error:
            self._notes.lost(f"{READ_ERROR}: {error.strerror or error}", CUT)
            return b""
        if data:
            self._tick(len(data))
        return data or b""

    def readinto(self, view: memoryview, /) -> int:
        try:
            size = _read_some(self._raw, view)
        except OSError as error:
            self._notes.lost(f"{READ_ERROR}: {error.strerror or error}", CUT)
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


class Buffered(ABC):
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


class Gunzip(Buffered):
    """Gzip, any number of members."""

    def __init__(self, raw: Reader, notes: Notes) -> None:
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
                self._input = self._raw.read(RAW_PIECE)
                if not self._input:
                    return self._end()
            if not self._started and not self._next_member():
                return b""
            before = self._member.copy()
            try:
                data = self._member.decompress(self._input, size)
            except zlib.error as error:
                return self._broken(before, size, error)
            if self._member.eof:
                self._input, self._started = self._member.unused_data, False
            else:
                self._input = self._member.unconsumed_tail
            if data:
                return data
        return b""

    def _end(self) -> bytes:
        """What the decoder still holds at the end of the input."""
        self._done = True
        if not self._started:
            return b""
        self._notes.lost("the gzip stream is cut short: the text up to the cut was read", CUT)
        try:
            return self._member.flush()
        except zlib.error:
            return b""

    def _broken(self, member: zlib._Decompress, size: int, error: zlib.error) -> bytes:
        """The bytes before the damage. The call that finds it gives none, so that the state before that call is fed
        in ever smaller portions."""
        self._done = True
        if "incorrect" in str(error) and " check" in str(error).rpartition("incorrect")[2]:
            why = "the gzip stream's check sum does not fit its text: all of it was read, but it may not be as written"
        else:
            why = "the gzip stream is damaged: the text before the damage was read"
        self._notes.lost(why, DAMAGED)
        parts = []
        rest = memoryview(self._input)
        portion = len(rest)
        while portion:
            copy = member.copy()
            try:
                data = copy.decompress(rest[:portion], size)
            except zlib.error:
                portion //= 2
                continue
            taken = portion - len(copy.unconsumed_tail)
            if not taken and not data:
                break
            parts.append(data)
            member, rest = copy, rest[taken:]
            portion = min(portion, len(rest))
        return b"".join(parts)

    def _next_member(self) -> bool:
        """Starts a member; False at the padding or junk that may follow the last one."""
        if len(self._input) < 2:
            self._input += self._raw.read(RAW_PIECE)
        if not self._input.startswith(sniff.GZIP):
            self._done = True
            if self._input.strip(b"\0"):
                self._notes.append("something that is not gzip follows the gzip stream; it was not read")
            return False
        self._member = zlib.decompressobj(wbits=31)
        self._started = True
        return True


class Transcoded(Buffered):
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
