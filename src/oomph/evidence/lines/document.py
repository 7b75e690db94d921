"""Regions of decoded text to a `Document` of clean lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from oomph.evidence.lines import clean, prefixes
from oomph.evidence.lines.tables import CellRanks
from oomph.evidence.model import Document, Line

#: A line longer than this is cut into pieces at the places that matter; nothing downstream sees longer ones.
MAX_LINE = 20_000
_KEEP_BEFORE, _KEEP_AFTER = 2_000, 6_000
_INTERESTING = re.compile(
    r"out of memory|Tried to allocate|Traceback \(most recent|OutOfMemoryError|CUDA error|exitcode|NCCL WARN"
)
_ESCAPED_TRACEBACK = "Traceback (most recent call last):\\n"


def build_document(
    source: str,
    regions: Sequence[tuple[int, str]],
    *,
    size_bytes: int = 0,
    rank: int | None = None,
    attempt: int | None = None,
    notes: Sequence[str] = (),
) -> Document:
    """Cleans the text of one input.

    A region is the 1-based number of its first line and its text with "\\n" line ends (carriage returns inside are
    progress bars: each part becomes a Line of the same number). `rank` is used for lines without a prefix of their
    own. Where one region does not continue the one before, a gap is recorded.
    """
    pieces: list[tuple[int, str]] = []
    gaps: list[int] = []
    following = 0
    for first, text in regions:
        if pieces and first != following:
            gaps.append(len(pieces))
        rows = text.split("\n")
        for offset, row in enumerate(rows):
            pieces.extend((first + offset, part) for part in _parts(row))
        following = first + len(rows) - (1 if rows and rows[-1] == "" else 0)
    lines, line_gaps = _clean(pieces, set(gaps))
    if rank is not None:
        for line in lines:
            if line.rank is None:
                line.rank = rank
    return Document(
        source=source,
        lines=lines,
        size_bytes=size_bytes,
        rank=rank,
        attempt=attempt,
        gaps=tuple(line_gaps),
        notes=tuple(notes),
    )


def _parts(row: str) -> Iterator[str]:
    """A raw line's pieces: carriage-return parts, and the interesting neighbourhoods of an overlong line."""
    if "\r" in row:
        parts = [part for part in row.split("\r") if part.strip()] or [""]
    else:
        parts = [row]
    for part in parts:
        if len(part) <= MAX_LINE:
            yield part
        else:
            yield from _cut(part)


def _cut(text: str) -> Iterator[str]:
    spans: list[tuple[int, int]] = [(0, _KEEP_BEFORE)]
    for match in _INTERESTING.finditer(text):
        start = max(0, match.start() - _KEEP_BEFORE)
        end = min(len(text), match.end() + _KEEP_AFTER)
        if start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
        if len(spans) > 200:
            break
    if spans[-1][1] < len(text):
        spans.append((max(spans[-1][1], len(text) - _KEEP_BEFORE), len(text)))
    for start, end in spans:
        for at in range(start, end, MAX_LINE):
            yield text[at : min(at + MAX_LINE, end)]


def _clean(pieces: list[tuple[int, str]], gaps: set[int]) -> tuple[list[Line], list[int]]:
    sample = "\n".join(text[:300] for _, text in pieces[:2000])
    sample += "\n".join(text[:300] for _, text in pieces[-500:])
    spelled = clean.has_spelled_ansi(sample)
    markup = "</" in sample or "&gt;" in sample or "&lt;" in sample or "&quot;" in sample or "&#" in sample
    cells = CellRanks()
    rows: list[tuple[int, str, int | None, bool]] = []
    for index, (number, raw) in enumerate(pieces):
        text = clean.strip_controls(clean.strip_ansi(raw, spelled=spelled))
        cell_rank = None
        if markup:
            cell_rank = cells.rank_of(text)
            text = clean.strip_markup(text)
        text = clean.strip_quote(text)
        gap = index in gaps
        if _ESCAPED_TRACEBACK in text:
            for part in _unescape(text):
                rows.append((number, part, cell_rank, gap))
                gap = False
        else:
            rows.append((number, text, cell_rank, gap))
    known = prefixes.learn([row[1] for row in rows])
    lines: list[Line] = []
    line_gaps: list[int] = []
    for number, text, cell_rank, gap in rows:
        if gap:
            line_gaps.append(len(lines))
        out = prefixes.strip(text, known)
        rank = cell_rank if cell_rank is not None else out.rank
        stream = out.stream or (f"rank{cell_rank}" if cell_rank is not None else "")
        lines.append(Line(out.text, number, stream, rank, out.time))
    return lines, line_gaps


def _unescape(text: str) -> list[str]:
    """A traceback that was printed as a string literal: its lines."""
    return text.replace('\\"', '"').replace("\\'", "'").replace("\\n", "\n").split("\n")
