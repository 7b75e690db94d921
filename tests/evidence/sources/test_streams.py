from __future__ import annotations

import gzip
import io
import tracemalloc

import pytest
import zstandard

from oomph.evidence.sources.streams import Gunzip, Transcoded, Unzstd, read_fully

TEXT = b"".join(b"line %d of the log\n" % number for number in range(5000))


def compress(kind: str, data: bytes) -> bytes:
    return gzip.compress(data) if kind == "gzip" else zstandard.ZstdCompressor().compress(data)


def read(kind: str, data: bytes) -> tuple[bytes, list[str]]:
    notes: list[str] = []
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

    def test_a_bomb_does_not_fill_the_memory(self, kind):
        data = compress(kind, bytes(64 << 20))
        assert len(data) < 1 << 20
        tracemalloc.start()
        reader = (Gunzip if kind == "gzip" else Unzstd)(io.BytesIO(data), [])
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
