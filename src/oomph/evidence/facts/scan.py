"""Finds the lines that a parser needs to look at, for all parsers in one pass.

A job prints hundreds of thousands of lines and says something about itself on a few of them. Each parser names the
words of which one must stand on a line; one automaton looks for all of them, and the parsers see only their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ahocorasick_rs import AhoCorasick, MatchKind

from oomph.evidence.model import Document

T = TypeVar("T")


@dataclass(frozen=True)
class Printer(Generic[T]):
    """A parser: `words` (lower case) of which one stands on every line that it can use, and `read`, which gets
    the document and the indices of those lines in order."""

    words: tuple[str, ...]
    read: Callable[[Document, Sequence[int]], Iterable[T]]


class Scanner(Generic[T]):
    """Runs several printers over a document in one pass over its text."""

    def __init__(self, printers: Sequence[Printer[T]]) -> None:
        self._printers = tuple(printers)
        readers: dict[str, int] = {}
        for number, printer in enumerate(self._printers):
            for word in printer.words:
                readers[word] = readers.get(word, 0) | 1 << number
        self._masks = list(readers.values())
        self._find = AhoCorasick(list(readers), matchkind=MatchKind.Standard).find_matches_as_indexes

    def candidates(self, document: Document) -> list[list[int]]:
        """For each printer the indices of the lines that carry one of its words."""
        found: list[list[int]] = [[] for _ in self._printers]
        masks = self._masks
        find = self._find
        for index, line in enumerate(document.lines):
            text = line.text.lower()
            try:
                hits = find(text, overlapping=True)
            except UnicodeEncodeError:  # lone surrogates from a lossy decoder
                hits = find(text.encode("utf-8", "replace").decode("utf-8"), overlapping=True)
            if not hits:
                continue
            mask = 0
            for hit in hits:
                mask |= masks[hit[0]]
            for number, lines in enumerate(found):
                if mask >> number & 1:
                    lines.append(index)
        return found

    def run(self, document: Document) -> list[T]:
        """What the printers read, printer by printer."""
        results: list[T] = []
        for printer, lines in zip(self._printers, self.candidates(document), strict=True):
            if lines:
                results.extend(printer.read(document, lines))
        return results
