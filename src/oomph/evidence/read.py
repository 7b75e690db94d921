"""All parsers over all inputs: files to Evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO, TypeVar

from oomph.evidence import facts, launchers, messages, series, sources, tables, traces
from oomph.evidence.model import Document, Evidence

#: So many lines with memory figures are read in all; a metric that stands on every line is sampled.
MOST_FIGURES = 6_000
#: But of each file at least so many: enough for a trend.
LEAST_FIGURES = 24

#: So many failure texts and ends of processes are kept in all: of each file the first and the last.
MOST_FAILURES, MOST_EXITS = 10_000, 20_000
#: But of each file at least so many.
LEAST_FAILURES = 16

Progress = Callable[[int, int], None]
T = TypeVar("T")


def read(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    elsewhere: sources.Elsewhere | None = None,
) -> Evidence:
    """Reads files, folders, patterns or "-" (stdin) and parses them.

    Memory snapshots among them are named in the result, not read; without anything else there are no documents.
    `progress(done_bytes, total_bytes)` is called now and then. `elsewhere` reads files in other processes; the result
    is the same. Raises InputError when there is nothing to read.
    """
    loaded = sources.load_all(paths, stdin=stdin, progress=progress, elsewhere=elsewhere)
    return replace(parse(loaded.documents), snapshots=loaded.snapshots)


def parse(documents: Sequence[Document]) -> Evidence:
    """Runs every parser over the documents; documents are numbered in the order given."""
    parts: dict[str, list[object]] = {}

    def keep(name: str, items: Sequence[object]) -> None:
        parts.setdefault(name, []).extend(items)

    files = max(1, len(documents))
    figures = max(LEAST_FIGURES, MOST_FIGURES // files)
    left_out = 0
    for index, document in enumerate(documents):
        document.index = index
        failures, more = messages.parse_ends(document, max(LEAST_FAILURES, MOST_FAILURES // files))
        left_out += more
        keep("failures", failures)
        keep("tracebacks", traces.parse(document))
        keep("samples", series.parse(document, limit=figures))
        gpus, processes = tables.parse_gpus(document)
        keep("gpus", gpus)
        keep("gpu_processes", processes)
        keep("tables", tables.parse_summaries(document))
        keep("exits", _ends(launchers.parse(document), max(LEAST_FAILURES, MOST_EXITS // files)))
        keep("facts", facts.parse(document))
    notes = [note for document in documents for note in document.input_notes]
    notes += [f"{document.source}: {note}" for document in documents for note in document.notes]
    if left_out:
        notes.append(f"{left_out:,} more failure texts were counted but not read")
    return Evidence(
        documents=tuple(documents),
        notes=tuple(notes),
        **{name: tuple(items) for name, items in parts.items()},  # type: ignore[arg-type]
    )


def _ends(items: Sequence[T], limit: int) -> Sequence[T]:
    """At most `limit` of `items`: the first and the last."""
    return items if len(items) <= limit else [*items[: limit - limit // 2], *items[-(limit // 2) :]]
