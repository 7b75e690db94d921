"""Regions of decoded text to a `Document` of clean lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from oomph.evidence.lines import clean, escapes, letter_case, prefixes
from oomph.evidence.lines.tables import CellRanks
from oomph.evidence.model import Document, Line, Quote

#: A line longer than this is cut into pieces at the places that matter; nothing downstream sees longer ones.
MAX_LINE = 20_000
_KEEP_BEFORE, _KEEP_AFTER = 2_000, 6_000
_MARKUP = ("</", "<html", "<body", "&gt;", "&lt;", "&quot;", "&nbsp;", "&#")
_INTERESTING = re.compile(
    r"out of memory|Tried to allocate|Traceback \(most recent|OutOfMemoryError|CUDA error|exitcode|NCCL WARN"
)


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
    own. Where one region does not continue the one before, a gap is recorded. A line whose line ends are written out
    (see `escapes`) becomes several Lines of its number.
    """
    pieces = _Pieces()
    following = 0
    for first, text in regions:
        if pieces.rows and first != following:
            pieces.gaps.add(len(pieces.rows))
        following = first + pieces.take(first, text)
    lines, line_gaps, originals = _clean(pieces)
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
        _quotes={
            index: Quote(source, lines[index].number, original.strip())
            for index, original in originals.items()
        },
    )


class _Pieces:
    """Raw lines with their numbers. `gaps` and `continued` are indices of `rows`: text is missing before it; it
    stands on the physical line of the one before. `one_case` says that a failure may stand in one letter case."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []
        self.gaps: set[int] = set()
        self.continued: set[int] = set()
        self.one_case = False

    def take(self, first: int, text: str) -> int:
        """Adds the lines of a region and returns by how much it moves the line number."""
        rows = text.split("\n")
        if escapes.may_fold(text):
            for offset, row in enumerate(rows):
                self._unfold(first + offset, row)
        else:
            for offset, row in enumerate(rows):
                self.rows.extend((first + offset, part) for part in _parts(row))
        self.one_case = self.one_case or letter_case.may_be_in_one_case(text)
        return len(rows) - (1 if rows and rows[-1] == "" else 0)

    def _unfold(self, number: int, row: str) -> None:
        folded = escapes.unfold(row)
        if folded is None:
            self.rows.extend((number, part) for part in _parts(row))
            return
        begin = len(self.rows)
        for one in folded:
            self.rows.extend((number, part) for part in _parts(one))
            self.one_case = self.one_case or letter_case.may_be_in_one_case(one)
        self.continued.update(range(begin + 1, len(self.rows)))


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


def _clean(pieces: _Pieces) -> tuple[list[Line], list[int], dict[int, str]]:
    """The lines, the indices of gaps, and the original text of lines in which letters were restored."""
    raws = pieces.rows
    sample = "\n".join(text[:300] for _, text in raws[:2000])
    sample += "\n".join(text[:300] for _, text in raws[-500:])
    spelled = clean.has_spelled_ansi(sample)
    markup = any(sign in sample for sign in _MARKUP)
    cells = CellRanks()
    texts: list[str] = []
    cell_ranks: dict[int, int] = {}
    restored: dict[int, str] = {}
    for index, (_, raw) in enumerate(raws):
        text = clean.narrow(clean.strip_controls(clean.strip_ansi(raw, spelled=spelled)))
        if markup:
            cell_rank = cells.rank_of(text)
            if cell_rank is not None:
                cell_ranks[index] = cell_rank
            text = clean.strip_markup(text)
        text = clean.strip_quote(text)
        if pieces.one_case:
            proper = letter_case.restore(text)
            if proper != text:
                restored[index], text = text, proper
        texts.append(text)
    lines = _strip_prefixes(pieces, texts, cell_ranks)
    originals = {index: text[-len(lines[index].text) :] for index, text in restored.items()}
    return lines, sorted(pieces.gaps), originals


def _strip_prefixes(pieces: _Pieces, texts: list[str], cell_ranks: dict[int, int]) -> list[Line]:
    known = prefixes.learn(texts)
    width = _wrap_width(texts)
    lines: list[Line] = []
    for index, ((number, _), text) in enumerate(zip(pieces.rows, texts, strict=True)):
        cell_rank = cell_ranks.get(index) if cell_ranks else None
        out = prefixes.strip(text, known)
        rank = cell_rank if cell_rank is not None else out.rank
        stream = out.stream or (f"rank{cell_rank}" if cell_rank is not None else "")
        line = Line(out.text, number, stream, rank, out.time)
        if width and lines and not stream and lines[-1].stream and len(texts[index - 1]) == width:
            # A terminal broke the line before: its rest has the prefix of its beginning.
            line.stream, line.rank, line.time = lines[-1].stream, lines[-1].rank, lines[-1].time
        if pieces.continued and index in pieces.continued:
            # Who wrote the physical line stands at its beginning alone.
            line.stream = line.stream or lines[-1].stream
            line.rank = lines[-1].rank if line.rank is None else line.rank
            line.time = lines[-1].time if line.time is None else line.time
        lines.append(line)
    return lines


def _wrap_width(texts: list[str]) -> int:
    """The column at which a terminal wrapped every long line; 0 where lines are as long as they are.

    Wrapped text has no line above the width and several of exactly that length, which lines do not have by chance.
    """
    lengths = [len(text) for text in texts]
    longest = max(lengths, default=0)
    full = sum(length == longest for length in lengths)
    return longest if 40 <= longest <= 400 and full >= 4 else 0
