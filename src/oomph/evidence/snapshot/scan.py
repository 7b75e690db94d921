"""The walk over a pickle's opcodes, byte by byte.

`hatch_build.py` compiles this module into wheels, where it takes a tenth of the unpickler's time. As Python it takes
four times that, so `opcodes` then uses a regular expression that stops at the same byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64  # machine words once compiled, plain ints otherwise

#: Opcodes without an argument: MEMOIZE MARK SETITEMS APPENDS EMPTY_DICT EMPTY_LIST TUPLE1 TUPLE2 TUPLE3 TUPLE
#: EMPTY_TUPLE NEWTRUE NEWFALSE NONE APPEND SETITEM. None of them calls anything.
BARE = b"\x94(ue}]\x85\x86\x87t)\x88\x89Nas"
#: Opcodes with an argument of fixed length, and that length: BINGET, LONG_BINGET, BININT1 BINPUT, BININT, BININT2,
#: BINFLOAT; the most frequent first.
FIXED = ((b"h", 1), (b"j", 4), (b"Kq", 1), (b"J", 4), (b"M", 2), (b"G", 8))
#: Integers of up to nine bytes: 64 bits and a sign.
LONG1_BYTES = 9


def _steps() -> bytes:
    """By opcode: how far the next one is. 0: not allowed; 255: it depends on what follows."""
    table = bytearray(256)
    for code in BARE:
        table[code] = 1
    for codes, length in FIXED:
        for code in codes:
            table[code] = 1 + length
    for code in b"\x8a\x8cr\x95":
        table[code] = 255
    return bytes(table)


STEPS = _steps()
#: Whether this module runs compiled.
COMPILED = not __file__.endswith(".py")


def whole(data: bytes, start: int, most: int, steps: bytes = STEPS) -> int:
    """Where the first opcode at or after `start` begins that is not allowed, or not whole within `data`.

    `most`: the largest memo index and frame length.
    """
    at: i64 = start
    end: i64 = len(data)
    limit: i64 = most
    while at < end:
        code: i64 = data[at]
        step: i64 = steps[code]
        if step == 255:
            step = _varying(data, at, limit)
        if step == 0 or at + step > end:
            break
        at += step
    return int(at)


def _varying(data: bytes, at: i64, limit: i64) -> i64:
    """The length of a LONG1, SHORT_BINUNICODE, LONG_BINPUT or FRAME with its argument; 0 where it is not allowed."""
    left: i64 = len(data) - at
    code: i64 = data[at]
    if left < 2:
        return 0
    size: i64 = data[at + 1]
    if code == 0x8A:
        return 2 + size if size <= LONG1_BYTES else 0
    if code == 0x8C:
        return 2 + size
    if left < 5:
        return 0
    number: i64 = size | data[at + 2] << 8 | data[at + 3] << 16 | data[at + 4] << 24
    if number > limit:
        return 0
    if code == 0x72:
        return 5
    if left < 9 or data[at + 5] or data[at + 6] or data[at + 7] or data[at + 8]:
        return 0
    return 9
