"""The walk over a pickle's opcodes, byte by byte.

`hatch_build.py` compiles this module into wheels, where it takes a tenth of the unpickler's time. As Python it takes
four times that, so `pattern` is used then, which stops at the same byte. Compiled, the walk can do more
than look: `Sharing` has lists of frames that are equal loaded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64  # machine words once compiled, plain ints otherwise

#: The longest list, in items, that is one list for sure: picklers write longer ones in several parts.
_MOST_ITEMS: Final = 999
#: Bytes of lists that are remembered.
_ROOM: Final = 1 << 24
# Final: written into the compiled code, and not looked up.
_MEMOIZE: Final = 0x94
_MARK: Final = 0x28
_EMPTY_LIST: Final = 0x5D
_EMPTY_DICT: Final = 0x7D
_APPENDS: Final = 0x65
_BINGET: Final = 0x68
_LONG_BINGET: Final = 0x6A
_BINPUT: Final = 0x71
_LONG_BINPUT: Final = 0x72
_LONG1: Final = 0x8A
_SHORT_TEXT: Final = 0x8C
_FRAME: Final = 0x95
#: Among `STEPS`: it depends on the argument.
VARYING: Final = 255
#: Opcodes without an argument: MEMOIZE MARK SETITEMS APPENDS EMPTY_DICT EMPTY_LIST TUPLE1 TUPLE2 TUPLE3 TUPLE
#: EMPTY_TUPLE NEWTRUE NEWFALSE NONE APPEND SETITEM. None of them calls anything.
BARE = b"\x94(ue}]\x85\x86\x87t)\x88\x89Nas"
#: Opcodes with an argument of fixed length, and that length: BINGET, LONG_BINGET, BININT1 BINPUT, BININT, BININT2,
#: BINFLOAT; the most frequent first.
FIXED = ((b"h", 1), (b"j", 4), (b"Kq", 1), (b"J", 4), (b"M", 2), (b"G", 8))
#: Integers of up to nine bytes: 64 bits and a sign.
LONG1_BYTES: Final = 9


def _steps() -> bytes:
    """By opcode: how far the next one is. 0: not allowed; 255: it depends on what follows."""
    table = bytearray(256)
    for code in BARE:
        table[code] = 1
    for codes, length in FIXED:
        for code in codes:
            table[code] = 1 + length
    for code in b"\x8a\x8cr\x95":
        table[code] = VARYING
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
        if step == VARYING:
            step = varying(data, at, limit)
        if step == 0 or at + step > end:
            break
        at += step
    return int(at)


def varying(data: bytes, at: i64, limit: i64) -> i64:
    """The length of a LONG1, SHORT_BINUNICODE, LONG_BINPUT or FRAME with its argument; 0 where it is not allowed."""
    left: i64 = len(data) - at
    code: i64 = data[at]
    if left < 2:
        return 0
    size: i64 = data[at + 1]
    if code == _LONG1:
        return 2 + size if size <= LONG1_BYTES else 0
    if code == _SHORT_TEXT:
        return 2 + size
    if left < 5:
        return 0
    number: i64 = size | data[at + 2] << 8 | data[at + 3] << 16 | data[at + 4] << 24
    if number > limit:
        return 0
    if code == _LONG_BINPUT:
        return 5
    if left < 9 or data[at + 5] or data[at + 6] or data[at + 7] or data[at + 8]:
        return 0
    return 9


class Sharing:
    """`whole`, and on the way the same pickle with every list of known dicts (the stack of an event) made a tuple, and
    every further one that is spelled the same made that tuple again.

    A million events have a million lists, of a few hundred stacks. A tuple cannot be changed later, and with a dict in
    it no more be a key than a list can: if what comes out can be read as a snapshot, it says what the file says.
    Frames (the opcode) are left out, since their lengths would be wrong. Where a pickle numbers its memo itself, as
    protocols before 4 do, nothing is shared.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.active = True
        self.known: dict[bytes, bytes] = {}
        self.room = _ROOM
        #: The opcode that made each thing in the memo.
        self.made_by = bytearray()

    def whole(self, data: bytes, start: int, out: list[bytes]) -> int:
        """As the function `whole`; what it passed is appended to `out`, rewritten."""
        at: i64 = start
        done: i64 = start
        end: i64 = len(data)
        limit: i64 = self.most
        last: i64 = 0
        made_by = self.made_by
        steps = STEPS
        while at < end:
            code: i64 = data[at]
            if code == _EMPTY_LIST and self.active and at + 3 < end:
                if data[at + 1] == _MEMOIZE and data[at + 2] == _MARK:
                    stop: i64 = self.references(data, at + 3)
                    if stop:
                        out.append(data[done:at])
                        out.append(self.shared(data[at + 3 : stop]))
                        made_by.append(_APPENDS)
                        at = stop + 1
                        done = at
                        last = 0
                        continue
            step: i64 = steps[code]
            if step == VARYING:
                step = varying(data, at, limit)
            if step == 0 or at + step > end:
                break
            if code == _MEMOIZE:
                made_by.append(last)
            elif code == _FRAME:
                out.append(data[done:at])
                done = at + step
            elif code in (_BINPUT, _LONG_BINPUT):
                self.active = False
            at += step
            last = code
        out.append(data[done:at])
        return int(at)

    def references(self, data: bytes, begin: i64) -> i64:
        """Where the references end that make up a whole list whose first item is a dict; 0 if it is no such list."""
        at: i64 = begin
        end: i64 = len(data)
        items: i64 = 0
        while at < end:
            code: i64 = data[at]
            if code == _BINGET:
                at += 2
            elif code == _LONG_BINGET:
                at += 5
            else:
                break
            items += 1
        if at >= end or data[at] != _APPENDS or items == 0 or items > _MOST_ITEMS:
            return 0
        first: i64 = data[begin + 1]
        if data[begin] == _LONG_BINGET:
            first |= data[begin + 2] << 8 | data[begin + 3] << 16 | data[begin + 4] << 24
        if first >= len(self.made_by) or self.made_by[first] != _EMPTY_DICT:
            return 0
        return at

    def shared(self, items: bytes) -> bytes:
        """What puts the tuple of these references on the stack, and into the memo where the list would be."""
        known = self.known.get(items)
        if known is not None:
            return known
        if len(items) < self.room:
            self.room -= len(items) + 100
            self.known[items] = b"j" + len(self.made_by).to_bytes(4, "little") + b"\x94"
        return b"(" + items + b"t\x94"
