"""The bytes of a file as a document: decompressed, decoded, cleaned of what terminals and collectors add; bounded."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from oomph.evidence.lines.document import build_document
from oomph.evidence.model import Document
from oomph.evidence.sources import documents, jsonlines, sniff
from oomph.evidence.sources.decode import decode
from oomph.evidence.sources.streams import Counted, Gunzip, Notes, Pushed, Reader, Transcoded, read_fully
from oomph.evidence.sources.unzstd import Unzstd

#: Of a longer text its beginning and its end are read: nothing that describes a machine is so long but a log.
HEAD_BYTES = 4 << 20
TAIL_BYTES = 2 << 20
#: A stream that cannot be measured is followed no further than this.
_STREAM_BYTES = 64 << 20
#: What all files of a command may take together.
ALL_BYTES = 48 << 20

_RANK = re.compile(r"(?:^|[._-])(?:global[._-]?)?rank[._-]?(\d{1,5})(?:[._-]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Unread:
    """Why a file has no text for us."""

    reason: str


def load(path: Path | None, name: str, stdin: BinaryIO | None, budget: int) -> Document | Unread:
    """The text of one file, or of standard input where `path` is None; at most about `budget` bytes of it."""
    if budget <= 0:
        return Unread("so much was read before it that this file was left out: name fewer files")
    try:
        if path is None:
            return _read(stdin if stdin is not None else io.BytesIO(), name, 0, budget)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _read(file, name, size, budget)
    except (OSError, ValueError) as error:
        return Unread(f"it cannot be opened: {getattr(error, 'strerror', None) or error}")


def _read(raw: BinaryIO, name: str, size: int, budget: int) -> Document | Unread:
    notes = Notes()
    reader: Reader = Counted(raw, lambda _: None, notes)
    sample = read_fully(reader, sniff.SAMPLE_BYTES)
    content = sniff.sniff(sample)
    reader = Pushed(sample, reader)
    plain = content.kind == "text"
    for _ in range(2):
        if content.kind not in ("gzip", "zstd"):
            break
        reader = Gunzip(reader, notes) if content.kind == "gzip" else Unzstd(reader, notes)
        sample = read_fully(reader, sniff.SAMPLE_BYTES)
        content = sniff.sniff(sample)
        reader = Pushed(sample, reader)
    if content.kind.startswith("utf-"):
        reader = Transcoded(reader, content.kind)
    elif content.kind == "binary" and b"\x00" in sample and _is_environ(sample):
        pass
    elif content.kind == "empty":
        return Unread("it is empty")
    elif content.kind != "text":
        return Unread(f"it is {content.what or 'compressed more than twice'}")
    head, tail = min(HEAD_BYTES, budget), min(TAIL_BYTES, budget)
    data = read_fully(reader, head)
    regions = [(1, data)]
    if len(data) >= head:
        rest = _tail_of_file(raw, size, head, tail) if plain and size else _tail_of_stream(reader, tail)
        if rest is not None:
            regions.append((1 + data.count(b"\n") + rest[0], rest[1]))
            notes.append(
                f"only its first {head >> 20} MiB and its last {tail >> 20} MiB were read: "
                "cut out what describes the machine where something is missed"
            )
    return _document(name, regions, notes, sample)


def _is_environ(sample: bytes) -> bool:
    """/proc/PID/environ: variables with NULs between them."""
    first = sample.partition(b"\x00")[0]
    return re.match(rb"[A-Za-z_][A-Za-z0-9_]{0,80}=", first) is not None


def _tail_of_file(raw: BinaryIO, size: int, head: int, tail: int) -> tuple[int, bytes] | None:
    """(lines between, the last bytes) of a regular file."""
    if size <= head:
        return None
    begin = max(head, size - tail)
    lines = 0
    raw.seek(head)
    left = begin - head
    while left > 0 and begin - head <= _STREAM_BYTES:
        piece = raw.read(min(1 << 20, left))
        if not piece:
            break
        lines += piece.count(b"\n")
        left -= len(piece)
    raw.seek(begin)
    return lines, raw.read(tail)


def _tail_of_stream(reader: Reader, tail: int) -> tuple[int, bytes] | None:
    last = b""
    lines = 0
    for _ in range(_STREAM_BYTES >> 20):
        piece = read_fully(reader, 1 << 20)
        if not piece:
            break
        last += piece
        if len(last) > tail:
            lines += last[:-tail].count(b"\n")
            last = last[-tail:]
    return (lines, last) if last else None


def _document(name: str, regions: list[tuple[int, bytes]], notes: Notes, sample: bytes) -> Document | Unread:
    texts: list[tuple[int, str]] = []
    for first, data in regions:
        if b"\x00" in data and _is_environ(sample):
            data = data.replace(b"\x00", b"\n")
        extracted = documents.extract_bytes(data) if documents.document_bytes(sample) else None
        if extracted is not None and (b'"cells"' in sample or b'"nbformat"' in sample):
            texts.append((1, extracted.text))
            notes += [extracted.note] if extracted.note else []
        else:
            text = decode(data).removesuffix("\n")
            texts.append((first, jsonlines.unwrap(text) if _is_record(text) else text))
    if not any(text.strip() for _, text in texts):
        return Unread("it is empty")
    rank = _RANK.search(name.replace("\\", "/").rpartition("/")[2])
    return build_document(
        name,
        texts,
        size_bytes=sum(len(data) for _, data in regions),
        rank=int(rank[1]) if rank is not None else None,
        notes=notes,
    )


def _is_record(text: str) -> bool:
    """A log of JSON lines, not one JSON document."""
    first = text.lstrip()[:1]
    return first != "[" and (first != "{" or '}\n{"' in text[:100_000])
