from __future__ import annotations

import gzip
import hashlib
import io
import tracemalloc
import zlib

import pytest
import zstandard

from oomph.evidence.sources.streams import CUT, DAMAGED, Gunzip, Notes, Transcoded, read_fully
from oomph.evidence.sources.unzstd import LONG_WINDOW, Unzstd

TEXT = b"".join(b"line %d of the log\n" % number for number in range(5000))


def compress(kind: str, data: bytes) -> bytes:
    return gzip.compress(data) if kind == "gzip" else zstandard.ZstdCompressor().compress(data)


def read(kind: str, data: bytes) -> tuple[bytes, list[str]]:
    notes = Notes()
    reader = (Gunzip if kind == "gzip" else Unzstd)(io.BytesIO(data), notes)
    parts = []
    while part := reader.read(10_000):
        assert len(part) <= 10_000
        parts.append(part)
    return b"".join(parts), notes


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
class TestCompressed:
    def test_one_member(self, kind):
        assert read(kind, compress(kind, TEXT)) == (TEXT, [])

    def test_several_members(self, kind):
        assert read(kind, compress(kind, TEXT) + compress(kind, b"") + compress(kind, b"more\n")) == (
            TEXT + b"more\n",
            [],
        )

    @pytest.mark.parametrize("lost", [1, 5, 20])
    def test_a_cut_stream_gives_what_is_there_and_a_note(self, kind, lost):
        data = compress(kind, TEXT[:3000]) + compress(kind, TEXT)
        text, notes = read(kind, data[:-lost])
        assert text.startswith(TEXT[:3000])
        assert notes == [f"the {kind} stream is cut short: the text up to the cut was read"]

    def test_damage_gives_what_stands_before_it_and_a_note(self, kind):
        data = compress(kind, b"good\n") + compress(kind, TEXT)[:8] + b"\xff" * 200
        text, notes = read(kind, data)
        assert text.startswith(b"good\n")
        assert "damaged" in notes[0]

    @pytest.mark.parametrize("lost", [1, 5, 20])
    def test_a_cut_stream_lacks_its_end(self, kind, lost):
        notes = Notes()
        reader = (Gunzip if kind == "gzip" else Unzstd)(io.BytesIO(compress(kind, TEXT)[:-lost]), notes)
        read_fully(reader, 1 << 20)
        assert notes.damage == CUT

    def test_an_altered_check_sum_costs_no_text(self, kind):
        # Lines without repetition, 3 MB of them: many calls of the decoder, and blocks of zstd.
        text = b"".join(
            hashlib.sha256(b"%d" % number).hexdigest().encode() + b"\n" for number in range(45_000)
        )
        if kind == "gzip":
            data = bytearray(gzip.compress(text))
        else:
            data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(text))
        # The last byte of the CRC of gzip, which four bytes of length follow; of zstd the last of all.
        data[-5 if kind == "gzip" else -1] ^= 0x55
        notes = Notes()
        reader = (Gunzip if kind == "gzip" else Unzstd)(io.BytesIO(bytes(data)), notes)
        assert read_fully(reader, 4 << 20) == text
        assert notes == [
            f"the {kind} stream's check sum does not fit its text: all of it was read, but it may not be as written"
        ]
        assert notes.damage == DAMAGED

    def test_a_bomb_does_not_fill_the_memory(self, kind):
        data = compress(kind, bytes(64 << 20))
        assert len(data) < 1 << 20
        tracemalloc.start()
        reader = (Gunzip if kind == "gzip" else Unzstd)(io.BytesIO(data), Notes())
        total = 0
        while part := reader.read(1 << 16):
            total += len(part)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == 64 << 20
        # A zstd block of 128 KiB takes four bytes here: 512 bytes of input give 16 MiB at once.
        assert peak < (24 << 20 if kind == "zstd" else 4 << 20)


def test_padding_after_gzip_is_no_news_but_junk_is():
    assert read("gzip", gzip.compress(b"a\n") + bytes(512)) == (b"a\n", [])
    text, notes = read("gzip", gzip.compress(b"a\n") + b"something else")
    assert text == b"a\n"
    assert "not gzip" in notes[0]


@pytest.mark.parametrize("at", [-8, -1])  # the CRC, the length
def test_an_altered_gzip_trailer_costs_no_text_however_small_it_is(at):
    data = bytearray(gzip.compress(b"one\ntwo\n"))
    data[at] ^= 0xFF
    assert read("gzip", bytes(data))[0] == b"one\ntwo\n"


def test_text_before_damage_in_the_middle_of_a_gzip_is_kept_to_the_byte():
    # Stored blocks (level 0) hold the text itself: a broken header of the second leaves the first whole.
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    head = packer.compress(TEXT[:40_000]) + packer.flush(zlib.Z_FULL_FLUSH)
    assert read("gzip", head + b"\xff" * 50)[0] == TEXT[:40_000]


def test_a_zstd_window_that_is_too_long_is_no_damage():
    # Magic, a descriptor without options, window descriptor 0xA8: 2 ** (10 + 21) bytes; an empty last block.
    text, notes = read("zstd", b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")
    assert (text, notes) == (b"", [LONG_WINDOW])


def test_skippable_zstd_frames_are_skipped():
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"meta"
    assert read("zstd", skippable + compress("zstd", b"a\n") + skippable) == (b"a\n", [])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_wide_text_becomes_utf8(encoding):
    text = "\ufeffLoss 1,5 – Speicher erschöpft 内存\n" * 100
    reader = Transcoded(io.BytesIO(text.encode(encoding)), encoding)
    # Reads of 7 bytes cut characters in two.
    parts = []
    while part := reader.read(7):
        parts.append(part)
    assert b"".join(parts).decode() == text[1:]


def test_half_a_wide_character_at_the_end_is_replaced():
    reader = Transcoded(io.BytesIO(b"a\0b"), "utf-16-le")
    assert read_fully(reader, 10).decode() == "a\ufffd"


def test_read_fully_collects_short_reads():
    class Dripping(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 3))

    assert read_fully(Dripping(b"0123456789"), 8) == b"01234567"
    assert read_fully(Dripping(b"01"), 8) == b"01"
