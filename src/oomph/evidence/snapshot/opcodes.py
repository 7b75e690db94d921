"""A look at a pickle's opcodes before anything is built from it.

Python's unpickler does what it is told: one opcode of five bytes makes it reserve 64 GB for its memo, others call
functions. A snapshot needs only the opcodes of plain data, so the unpickler is given the file piece by piece, and of
each piece only what was looked at before. The look is `scan.whole` where that is compiled; else one regular expression
(`pattern`) over thousands of opcodes at a time, since a loop in Python would take ten times as long.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from oomph.errors import InputError
from oomph.evidence.snapshot import scan
from oomph.evidence.snapshot.caps import Caps
from oomph.evidence.snapshot.pattern import PatternLook, highest

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Opcodes that name classes, call them, or refer to something outside the file.
_RUNS_CODE = frozenset(
    (
        *("GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"),
        *("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"),
    )
)
_STOP = ord(".")
_BINUNICODE = ord("X")
#: All bytes but those of the opcodes that make containers. Other data has such bytes too: counts are upper bounds.
_NO_CONTAINER = bytes(set(range(256)).difference(b"]})t\x85\x86\x87"))
#: Bytes read at a time, and what every allowed opcode but BINUNICODE takes at most (SHORT_BINUNICODE).
_PIECE = 1 << 18
_LONGEST = 2 + 255

#: Given a piece and a place in it: where the first opcode begins that is not allowed, or not whole within the piece.
Look = Callable[[bytes, int], int]
#: The same; what was passed is appended to the list, as it shall be handed out.
Walk = Callable[[bytes, int, list[bytes]], int]


class Plain(io.RawIOBase):
    """The pickle in `file` as a file of its own that ends, with InputError, before the first opcode that is not plain
    data within the caps. `size`: the file's bytes; of a file that grows meanwhile no more than that is read. `share`:
    whether equal stacks become one tuple (`scan.Sharing`).
    """

    def __init__(self, file: BinaryIO, size: int, name: str, caps: Caps, *, share: bool = False) -> None:
        self._file = file
        self._left = size
        self._name = name
        self._caps = caps
        self._walk = scan.Sharing(highest(size)).whole if share else _as_it_is(look(size))
        self._containers = max(caps.container_floor, int(size * caps.container_share))
        self._rest = b""  # read, and not looked at
        self._before = 0  # bytes of the file before it
        self._ready = memoryview(b"")  # looked at, and not handed out
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As of every raw file. Raises InputError, naming the file."""
        while not self._ready and not self._ended:
            self._advance()
        view = memoryview(buffer)
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _advance(self) -> None:
        """Reads a piece more, and looks at it. Raises InputError."""
        piece = self._file.read(min(_PIECE, self._left))
        self._left = self._left - len(piece) if piece else 0
        self._count(piece)
        data = self._rest + piece
        out: list[bytes] = []
        at = 0
        if not self._before:
            if self._left and len(data) < _LONGEST:
                self._rest = data
                return
            self._check_begin(data)
            at = 2
            out.append(data[:2])
        at = self._looked_at(data, at, out)
        self._rest = data[at:]
        self._before += at
        self._ready = memoryview(b"".join(out))

    def _check_begin(self, data: bytes) -> None:
        if data[:1] != b"\x80" or len(data) < 3:
            raise InputError(f"{self._name} is not a memory snapshot: it does not begin like a pickle.")
        if data[1] > 5:
            raise InputError(
                f"{self._name} is not a memory snapshot: pickle protocol {data[1]} does not exist."
            )

    def _count(self, piece: bytes) -> None:
        self._containers -= len(piece.translate(None, _NO_CONTAINER))
        if self._containers < 0:
            raise InputError(
                f"{self._name} was refused: it consists of far more lists and dicts than a snapshot has."
            )

    def _looked_at(self, data: bytes, at: int, out: list[bytes]) -> int:
        """How much of the data was passed: all whole opcodes, up to the end of the pickle. Raises InputError."""
        while True:
            at = self._walk(data, at, out)
            rest = len(data) - at
            if rest and data[at] == _STOP:
                self._ended = True
                out.append(b".")
                return at + 1
            if rest >= 5 and data[at] == _BINUNICODE:
                size = 5 + self._text_bytes(data, at)
                if size <= rest:
                    out.append(data[at : at + size])
                    at += size
                    continue
            elif rest >= _LONGEST or (rest and data[at] not in _ALLOWED):
                raise InputError(self._refused(data[at], self._before + at))
            if not self._left:
                raise InputError(_cut_short(self._name))
            return at

    def _text_bytes(self, data: bytes, at: int) -> int:
        size = int.from_bytes(data[at + 1 : at + 5], "little")
        if size > self._caps.text_bytes:
            raise InputError(
                f"{self._name} was refused: it holds a string of {size} bytes, which no snapshot has."
            )
        return size

    def _refused(self, code: int, place: int) -> str:
        known = next((opcode for opcode in pickletools.opcodes if opcode.code == chr(code)), None)
        if known is None:
            return f"{self._name} is damaged: there is no pickle opcode {code:#04x} (at byte {place})."
        if known.name in _RUNS_CODE:
            return (
                f"{self._name} was refused: it would look up or call Python code ({known.name} at byte {place}), "
                "which a memory snapshot never does. Do not unpickle it."
            )
        if code in _ALLOWED and known.name != "LONG1":
            # A frame, or a number in the memo, that points beyond the end of the file.
            return _cut_short(self._name)
        return (
            f"{self._name} is not a memory snapshot: that is a pickle of numbers, text, lists and dicts, and this "
            f"one has {known.name} (at byte {place})."
        )


def _cut_short(name: str) -> str:
    return (
        f"{name} is cut short or damaged: the pickle has no end. Copy it again, or dump the snapshot again."
    )


_ALLOWED = frozenset(code for code, step in enumerate(scan.STEPS) if step) | {_BINUNICODE}


def _as_it_is(look: Look) -> Walk:
    def walk(data: bytes, at: int, out: list[bytes]) -> int:
        end = look(data, at)
        out.append(data[at:end])
        return end

    return walk


def look(size: int) -> Look:
    """The look at the opcodes of a file of `size` bytes, as fast as it can be had here."""
    return compiled_look(size) if scan.COMPILED else PatternLook(size)


def compiled_look(size: int) -> Look:
    """By `scan.whole`. It can be used uncompiled, too, and is slow then."""
    most = highest(size)
    whole = scan.whole
    return lambda data, at: whole(data, at, most)
