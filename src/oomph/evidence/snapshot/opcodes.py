"""A look at a pickle's opcodes before anything is built from it.

Python's unpickler does what it is told: one opcode of five bytes makes it reserve 64 GB for its memo, others call
functions. A snapshot needs only the opcodes of plain data, so all others are refused before the unpickler sees the
file. The check is one regular expression over thousands of opcodes at a time, since a loop in Python would take
longer than everything else (measured on a million events: the check takes as long as the C unpickler itself, a loop
ten times that).
"""

from __future__ import annotations

import pickletools
import re
import sys

from oomph.errors import InputError
from oomph.evidence.snapshot.caps import Caps

_ANY = rb"[\s\S]"
#: Opcodes without an argument: MEMOIZE MARK SETITEMS APPENDS EMPTY_DICT EMPTY_LIST TUPLE1 TUPLE2 TUPLE3 TUPLE
#: EMPTY_TUPLE NEWTRUE NEWFALSE NONE APPEND SETITEM. None of them calls anything.
_BARE = rb"[\x94(ue}\]\x85\x86\x87t)\x88\x89Nas]"
#: Integers of up to nine bytes: 64 bits and a sign.
_LONG1 = rb"\x8a(?:%s|\x00)" % b"|".join(
    b"\\x%02x" % size + _ANY + b"{%d}" % size for size in (6, 5, 7, 4, 3, 8, 9, 2, 1)
)
#: Opcodes that name classes, call them, or refer to something outside the file.
_RUNS_CODE = frozenset(
    (
        *("GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"),
        *("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"),
    )
)
#: Opcodes per match. Larger groups cost memory (the matcher remembers where it could go back to), not time.
_GROUP = 5000
#: From Python 3.11 on the matcher can be told that it will not need to go back, which is faster.
_NO_WAY_BACK = b"+" if sys.version_info >= (3, 11) else b""
_STOP = ord(".")
_BINUNICODE = ord("X")
#: All bytes but those of the opcodes that make containers. Other data has such bytes too: counts are upper bounds.
_NO_CONTAINER = bytes(set(range(256)).difference(b"]})t\x85\x86\x87"))


def check(data: bytes, name: str, caps: Caps) -> None:
    """Raises InputError, naming the file as `name`, unless `data` is one pickle of plain data within the caps."""
    if data[:1] != b"\x80" or len(data) < 3:
        raise InputError(f"{name} is not a memory snapshot: it does not begin like a pickle.")
    if data[1] > 5:
        raise InputError(f"{name} is not a memory snapshot: pickle protocol {data[1]} does not exist.")
    _check_containers(data, name, caps)
    match = _pattern(len(data)).match
    at, end = 2, len(data)
    while at < end:
        found = match(data, at)
        if found is not None:
            at = found.end()
            continue
        code = data[at]
        if code == _STOP:
            return
        if code == _BINUNICODE and at + 5 <= end:
            at = _after_text(data, at, name, caps)
            continue
        raise InputError(_refused(data, at, name))
    raise InputError(_cut_short(name))


def _check_containers(data: bytes, name: str, caps: Caps) -> None:
    most = max(caps.container_floor, int(len(data) * caps.container_share))
    if len(data) > most and len(data.translate(None, _NO_CONTAINER)) > most:
        raise InputError(f"{name} was refused: it consists of far more lists and dicts than a snapshot has.")


def _after_text(data: bytes, at: int, name: str, caps: Caps) -> int:
    size = int.from_bytes(data[at + 1 : at + 5], "little")
    if size > caps.text_bytes:
        raise InputError(f"{name} was refused: it holds a string of {size} bytes, which no snapshot has.")
    return at + 5 + size


def _refused(data: bytes, at: int, name: str) -> str:
    code = chr(data[at])
    known = next((opcode for opcode in pickletools.opcodes if opcode.code == code), None)
    if len(data) - at < 300 and (known is None or known.arg is not None):
        return _cut_short(name)
    if known is None:
        return f"{name} is damaged: there is no pickle opcode {data[at]:#04x} (at byte {at})."
    if known.name in _RUNS_CODE:
        return (
            f"{name} was refused: it would look up or call Python code ({known.name} at byte {at}), which a memory "
            "snapshot never does. Do not unpickle it."
        )
    return (
        f"{name} is not a memory snapshot: that is a pickle of numbers, text, lists and dicts, and this one has "
        f"{known.name} (at byte {at})."
    )


def _cut_short(name: str) -> str:
    return (
        f"{name} is cut short or damaged: the pickle has no end. Copy it again, or dump the snapshot again."
    )


def _pattern(size: int) -> re.Pattern[bytes]:
    """Up to `_GROUP` allowed opcodes of a file of `size` bytes.

    Alternatives stand in the order of their frequency in real snapshots, and no two begin with the same byte: the
    matcher never has a choice. A memo index beyond the file's size cannot be needed, and would be paid in memory: its
    highest bytes are bounded by the size's. Frames of 4 GiB and longer do not occur. BINUNICODE is left to `check`:
    its length is a number.
    """
    top = min(size.bit_length() + 7 >> 3, 4)
    high = min(size >> (8 * (top - 1)), 255)
    index = _ANY * (top - 1) + b"[\\x00-\\x%02x]" % high + b"\\x00" * (4 - top)
    short_text = b"|".join(re.escape(bytes([n])) + _ANY + b"{%d}" % n for n in range(1, 256))
    alternatives = (
        rb"h[\s\S]",  # BINGET
        rb"j[\s\S]{4}",  # LONG_BINGET
        _BARE + rb"{1,200}",
        _LONG1,
        rb"J[\s\S]{4}",  # BININT
        rb"K[\s\S]",  # BININT1
        rb"M[\s\S]{2}",  # BININT2
        rb"q[\s\S]",  # BINPUT
        b"r" + index,  # LONG_BINPUT
        rb"\x95[\s\S]{4}\x00{4}",  # FRAME
        rb"G[\s\S]{8}",  # BINFLOAT
        rb"\x8c(?:\x00|" + short_text + b")",  # SHORT_BINUNICODE
    )
    return re.compile(b"(?:" + b"|".join(alternatives) + b"){1,%d}" % _GROUP + _NO_WAY_BACK)
