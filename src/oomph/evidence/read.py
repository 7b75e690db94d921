"""All parsers over all inputs: files to Evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import BinaryIO

from oomph.evidence import facts, launchers, messages, series, sources, tables, traces
from oomph.evidence.model import Document, Evidence

#: So many lines with memory figures are read in all; a metric that stands on every line is sampled.
MOST_FIGURES = 6_000
#: But of each file at least so many: enough for a trend.
LEAST_FIGURES = 24

Progress = Callable[[int, int], None]


def read(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Reads files, folders, patterns or "-" (stdin) and parses them.

    `progress(done_bytes, total_bytes)` is called now and then. Raises InputError when there is nothing to read.
    """
    return parse(sources.load(paths, stdin=stdin, progress=progress))


def parse(documents: Sequence[Document]) -> Evidence:
    """Runs every parser over the documents; documents are numbered in the order given."""
    parts: dict[str, list[object]] = {}

    def keep(name: str, items: Sequence[object]) -> None:
        parts.setdefault(name, []).extend(items)

    figures = max(LEAST_FIGURES, MOST_FIGURES // max(1, len(documents)))
    for index, document in enumerate(documents):
        document.index = index
        keep("failures", messages.parse(document))
        keep("tracebacks", traces.parse(document))
        keep("samples", series.parse(document, limit=figures))
        gpus, processes = tables.parse_gpus(document)
        keep("gpus", gpus)
        keep("gpu_processes", processes)
        keep("tables", tables.parse_summaries(document))
        keep("exits", launchers.parse(document))
        keep("facts", facts.parse(document))
    notes = [note for document in documents for note in document.input_notes]
    notes += [f"{document.source}: {note}" for document in documents for note in document.notes]
    return Evidence(
        documents=tuple(documents),
        notes=tuple(notes),
        **{name: tuple(items) for name, items in parts.items()},  # type: ignore[arg-type]
    )
