"""The look at a pickle's opcodes by a regular expression, for where `scan` is not compiled.

It stops at the same byte as `scan.whole`. Of a trace it learns how events are spelled: a million events differ in few
opcodes, and to match twenty opcodes in a row takes half the time of matching twenty times one of many. What it learns
is a sequence of allowed opcodes like any other, so that it changes nothing but the time.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator

from oomph.evidence.snapshot import scan

#: Opcodes per match. Larger groups cost memory (the matcher remembers where it could go back to), not time.
_GROUP = 5000
#: From Python 3.11 on the matcher can be told that it will not need to go back, which is faster.
_NO_WAY_BACK = b"+" if sys.version_info >= (3, 11) else b""
#: Learning: after so many bytes for the first time, and whenever there were eight times as many; from so many bytes;
#: a sequence that occurs at least so often there, and has at least so many opcodes.
_FIRST, _AGAIN, _SAMPLE, _OFTEN, _LONG = 200_000, 8, 30_000, 50, 6


class PatternLook:
    """Given a piece of a file of `size` bytes and a place in it: where the first opcode begins that is not allowed, or
    not whole within the piece.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._usual = b""
        self._match = _pattern(size, b"").match
        self._seen = 0
        self._learn_at = _FIRST

    def __call__(self, data: bytes, at: int) -> int:
        begin = at
        match = self._match
        while (found := match(data, at)) is not None:
            at = found.end()
        self._seen += at - begin
        if self._seen >= self._learn_at:
            self._learn_at = self._seen * _AGAIN
            usual = _usual(data, begin, min(at, begin + _SAMPLE))
            if usual and usual != self._usual:
                self._usual = usual
                self._match = _pattern(self._size, usual).match
        return at


def _opcodes(data: bytes, at: int, end: int) -> Iterator[bytes]:
    """The opcodes with their arguments from `at` to `end`, all of which were looked at before."""
    while at < end:
        step = scan.STEPS[data[at]]
        if step == scan.VARYING:
            step = scan.varying(data, at, (1 << 32) - 1)
        yield data[at : at + step]
        at += step


def _usual(data: bytes, at: int, end: int) -> bytes:
    """A pattern for how most dicts in this part begin: up to their first list, or their last value; empty if they are
    too different, or spelled in a way that needs a closer look."""
    begins: dict[tuple[bytes, ...], list[list[bytes]]] = {}
    current: list[bytes] | None = None
    for opcode in _opcodes(data, at, end):
        if opcode == b"}":
            current = []
        if current is None:
            continue
        if opcode in b"]u":
            if opcode == b"u":
                current = current[:-1]
            begins.setdefault(tuple(map(_sort, current)), []).append(current)
            current = None
        else:
            current.append(opcode)
    if not begins:
        return b""
    sort, same = max(begins.items(), key=lambda item: len(item[1]))
    if len(same) < _OFTEN or len(sort) < _LONG or any(code in b"r\x95" for code in sort):
        return b""
    return b"".join(_any_of(Counter(map(_spelled, place))) for place in zip(*same, strict=True))


def _sort(opcode: bytes) -> bytes:
    """The opcode without its argument; small, middle and large integers are one."""
    return b"J" if opcode[:1] in (b"K", b"M", b"\x8a") else opcode[:1]


def _spelled(opcode: bytes) -> bytes:
    """The pattern of an opcode with any argument of the same length."""
    if opcode[:1] in (b"\x8a", b"\x8c"):
        return re.escape(opcode[:2]) + b"." * (len(opcode) - 2)
    return re.escape(opcode[:1]) + b"." * (len(opcode) - 1)


def _any_of(spellings: Counter[bytes]) -> bytes:
    if len(spellings) == 1:
        return next(iter(spellings))
    return b"(?:" + b"|".join(spelling for spelling, _ in spellings.most_common()) + b")"


def highest(size: int) -> int:
    """The largest memo index, and frame length, that a file of `size` bytes can need: rounded up in its highest byte,
    for the sake of the regular expression. The memo is an array, and an index beyond the file is paid in memory."""
    top = _top(size)
    return ((size >> 8 * (top - 1)) + 1 << 8 * (top - 1)) - 1 if size < 1 << 32 else (1 << 32) - 1


def _top(size: int) -> int:
    return min(max(size.bit_length() + 7 >> 3, 1), 4)


def _pattern(size: int, usual: bytes) -> re.Pattern[bytes]:
    """Up to `_GROUP` allowed opcodes of a file of `size` bytes. `usual`: how most dicts begin.

    Alternatives stand in the order of their frequency in real snapshots. But for `usual`, which is tried before the
    opcodes that it begins with, no two begin with the same byte: the matcher never has a choice. BINUNICODE is left to
    `Plain`: its length is a number of four bytes.
    """
    top = _top(size)
    high = min(size >> (8 * (top - 1)), 255)
    number = b"." * (top - 1) + b"[\\x00-\\x%02x]" % high + b"\\x00" * (4 - top)
    fixed = [b"[%s]" % re.escape(codes) + b"." * length for codes, length in scan.FIXED]
    short_text = b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in range(256))
    long1 = b"|".join(b"\\x%02x" % n + b"." * n for n in (6, 5, 7, 4, 3, 8, 9, 2, 1, 0))
    alternatives = (
        *fixed[:2],  # BINGET LONG_BINGET
        *(
            (b"eu" + usual, b"u" + usual) if usual else ()
        ),  # the list of the dict before, and that dict, end first
        b"[%s]{1,200}" % re.escape(scan.BARE),
        b"\x8a(?:%s)" % long1,
        *fixed[2:],
        b"r" + number,  # LONG_BINPUT
        b"\x95" + number + b"\\x00{4}",  # FRAME
        b"\x8c(?:%s)" % short_text,  # SHORT_BINUNICODE
    )
    return re.compile(
        b"(?:" + b"|".join(alternatives) + b"){1,%d}" % _GROUP + _NO_WAY_BACK,
        re.DOTALL,
    )
