"""A long text in parts that end at line ends, in buffers that are used again."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.evidence.sources.streams import Reader, fill

#: Bytes that stay behind where a chunk ends in the middle of a line, so that no literal is cut in two.
_OVERLAP = 128
#: A partial last line up to this length waits for its end; longer ones are cut.
_LONGEST_CARRY = 64 << 10
#: Newlines are counted in blocks of this size, so that the line of any place is found quickly.
_BLOCK_SHIFT = 15
#: The chunk before the current one is still needed while the next is read and searched.
_BUFFERS = 3


class Chunk:
    """A part of the text from byte `base` to `end`. It is valid until two more chunks were taken."""

    __slots__ = ("_counts", "_data", "_previous", "base", "end", "view")

    def __init__(self, data: bytearray, size: int, base: int, previous: Chunk | None) -> None:
        self._data = data
        self._previous = previous
        self._counts: list[int] = []
        self.view = memoryview(data)[:size]
        self.base = base
        self.end = base + size

    @classmethod
    def empty(cls) -> Chunk:
        """What stands before the first chunk."""
        return cls(bytearray(), 0, 0, None).counted()

    def counted(self) -> Chunk:
        """Counts the lines, which `line_at` needs. Chunks are counted in their order."""
        size = self.end - self.base
        counts = [1 if self._previous is None else self._previous.next_line]
        for at in range(0, size, 1 << _BLOCK_SHIFT):
            stop = min(size, at + (1 << _BLOCK_SHIFT))
            counts.append(counts[-1] + self._data.count(b"\n", at, stop))
        self._counts = counts
        self._previous = None
        return self

    @property
    def next_line(self) -> int:
        """The number of the line that goes on after the chunk."""
        return self._counts[-1]

    def line_at(self, position: int) -> int:
        """The number of the line that byte `position` is in."""
        at = position - self.base
        block = at >> _BLOCK_SHIFT
        return self._counts[block] + self._data.count(b"\n", block << _BLOCK_SHIFT, at)

    def slice(self, start: int, end: int) -> memoryview:
        """The chunk's part of the bytes from `start` (not before `base`) to `end`."""
        return self.view[start - self.base : max(0, end - self.base)]


def chunks(reader: Reader, size: int) -> Iterator[Chunk]:
    """The text in parts of about `size` bytes that end at line ends, or anywhere in a line that is too long. Only
    the last part is short."""
    buffers = [bytearray(size + _LONGEST_CARRY) for _ in range(_BUFFERS)]
    turn = base = 0
    carry = b""
    previous: Chunk | None = None
    while True:
        data = buffers[turn % _BUFFERS]
        turn += 1
        data[: len(carry)] = carry
        have = len(carry) + fill(reader, memoryview(data)[len(carry) : len(carry) + size])
        last = have < len(carry) + size
        cut = have if last else _cut(data, have)
        if cut:
            previous = Chunk(data, cut, base, previous)
            yield previous
            base += cut
        if last:
            return
        carry = bytes(memoryview(data)[cut:have])


def _cut(data: bytearray, have: int) -> int:
    """Where to end a chunk of which `have` bytes are there."""
    cut = data.rfind(b"\n", max(0, have - _LONGEST_CARRY), have) + 1
    if cut == 0:
        cut = have - _OVERLAP
        while cut > 1 and data[cut] & 0xC0 == 0x80:  # not inside a UTF-8 character
            cut -= 1
    return max(1, cut)
