"""Zstandard as a bounded stream of bytes, block by block.

The decoder gives nothing of a call in which it finds damage. Its input is therefore cut where the format has its
blocks (RFC 8878, 3.1.1), so that damage costs the text of one block only; that also bounds what one call returns.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from oomph.evidence.sources import sniff
from oomph.evidence.sources.streams import CUT, DAMAGED, RAW_PIECE, Buffered, Notes, Reader

if TYPE_CHECKING:
    import zstandard

#: Bytes handed over at once where the cutter does not know the format. A block of 128 KiB can be four bytes long.
_PIECE = 512
_LONGEST_WINDOW = 31

#: The decoder refuses windows of more than 128 MiB, as the `zstd` command does.
LONG_WINDOW = "the zstd stream was made with --long: decompress it with `zstd -d --long=31` first"


class Unzstd(Buffered):
    """Zstandard, any number of frames."""

    def __init__(self, raw: Reader, notes: Notes) -> None:
        super().__init__()
        self._raw = raw
        self._notes = notes
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._pieces = _pieces()
        self._wanted = 0
        self._header = b""
        self._input = b""
        self._taken = 0
        self._done = False

    def _more(self, size: int) -> bytes:  # noqa: ARG002 (what a piece holds is bounded by the piece)
        import zstandard

        while not self._done:
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._pieces, self._header = _pieces(), b""
                self._wanted = next(self._pieces)
            piece = self._take(self._wanted)
            if not piece:
                self._done = True
                if self._header:
                    self._notes.lost("the zstd stream is cut short: the text up to the cut was read", CUT)
                return b""
            if len(self._header) < 6:
                self._header += piece
            self._wanted = self._pieces.send(piece)
            try:
                data = self._frame.decompress(piece)
            except (zstandard.ZstdError, MemoryError) as error:
                self._done = True
                self._say(str(error))
                return b""
            if self._frame.eof:
                self._taken -= len(self._frame.unused_data)
                self._frame = None
            if data:
                return data
        return b""

    def _take(self, size: int) -> bytes:
        """The next `size` bytes of the input, fewer only at its end."""
        while len(self._input) - self._taken < size:
            more = self._raw.read(RAW_PIECE)
            if not more:
                break
            self._input, self._taken = self._input[self._taken :] + more, 0
        piece = self._input[self._taken : self._taken + size]
        self._taken += len(piece)
        return piece

    def _say(self, error: str) -> None:
        # The byte after the descriptor (where there is a window): its upper five bits and 10 are the logarithm, of
        # which `zstd` allows 31; more is damage.
        if "too much memory" in error and (self._header[5] >> 3) + 10 <= _LONGEST_WINDOW:
            self._notes.lost(LONG_WINDOW, DAMAGED)
        elif "checksum" in error:
            self._notes.lost(
                "the zstd stream's check sum does not fit its text: all of it was read, but it may not be as written",
                DAMAGED,
            )
        else:
            self._notes.lost("the zstd stream is damaged: the text before the damage was read", DAMAGED)


def _pieces() -> Generator[int, bytes, None]:
    """Sizes of the parts of one frame in their order: header, blocks, check sum. Is sent each part."""
    head = yield 5
    if len(head) == 5 and head.startswith(sniff.ZSTD):
        descriptor = head[4]
        one_segment = bool(descriptor & 0x20)
        content_size = (1 if one_segment else 0, 2, 4, 8)[descriptor >> 6]
        more = (0, 1, 2, 4)[descriptor & 3] + content_size + (not one_segment)
        if more:
            yield more
        last = False
        while not last:
            block = int.from_bytes((yield 3), "little")
            last = bool(block & 1)
            is_run = (block >> 1) & 3 == 1
            if block >> 3:
                yield 1 if is_run else block >> 3
        if descriptor & 4:
            yield 4
    while True:
        yield _PIECE
