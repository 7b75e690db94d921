"""Everything that the user named, as documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from oomph.errors import InputError
from oomph.evidence.lines import build_document
from oomph.evidence.model import Document, SnapshotFile
from oomph.evidence.sources.discover import Entry, discover
from oomph.evidence.sources.elsewhere import Elsewhere, read_elsewhere
from oomph.evidence.sources.limits import Limits, limits_for
from oomph.evidence.sources.ranks import line_rank, place_files, said_ranks
from oomph.evidence.sources.read import Refused, Text, read_text

#: Files of this size are read with the help of a second thread; smaller ones gain nothing from it.
_AHEAD_FROM = 16 << 20
_NAMES_IN_NOTE = 3
_LOCAL_RANKS = (
    "several torchrun log trees have the same local ranks (several nodes, or several runs): the global ranks of files "
    "that do not name their own are unknown"
)
_KIND_WORDS = {
    "empty": "empty",
    "binary": "not text",
    "snapshot": "a memory snapshot (`oomph snapshot` reads it)",
    "code": "source code",
    "window": "compressed with a long window, run `zstd -d --long=31` first",
    "damaged": "damaged",
    "unreadable": "not readable",
}


@dataclass(frozen=True)
class Loaded:
    """What the input consists of: documents, and memory snapshots, which are only named."""

    documents: list[Document]
    snapshots: tuple[SnapshotFile, ...] = ()


def load(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    progress: Callable[[int, int], None] | None = None,
    limits: Limits | None = None,
) -> list[Document]:
    """The documents alone; an input of snapshots alone has nothing to read. Otherwise as `load_all`."""
    return load_all(paths, stdin=stdin, progress=progress, limits=limits, snapshots=False).documents


def load_all(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    progress: Callable[[int, int], None] | None = None,
    limits: Limits | None = None,
    snapshots: bool = True,
    elsewhere: Elsewhere | None = None,
) -> Loaded:
    """Reads files, directories, patterns and "-" into documents, in order, large ones reduced to what matters.
    Memory snapshots are told apart, where `snapshots` asks for them, and left to their own reader.

    `stdin` stands for standard input where a path is "-" (default: `sys.stdin.buffer`). `progress(done, total)` is
    called with bytes now and then; total is 0 when only standard input is read. `limits` (for each file) replaces
    those that follow from the number of files. `elsewhere` reads files in other processes; the result is the same.

    Raises InputError, with a sentence that says what to do, when a path does not exist or nothing can be read. Notes
    about the whole input (passed-over files) are the first document's `input_notes`.
    """
    try:
        found = discover(paths)
    except InputError as error:
        raise InputError(_one_line(str(error))) from None
    limits = limits or limits_for(len(found.entries))
    meter = _Meter(progress, sum(entry.size for entry in found.entries))
    results: list[tuple[Entry, Text | Refused]] = []
    far = {} if elsewhere is None else read_elsewhere(found.entries, limits, elsewhere)
    used = 0
    for index, entry in enumerate(found.entries):
        own = limits.next_file(used, index, len(found.entries))
        text: Text | Refused | None = far[index].under(own) if index in far else None
        if text is None:
            text = _read_one(entry, stdin, own, meter)
        else:
            meter.tick(entry.size)
        if isinstance(text, Text):
            used += text.cost
        results.append((entry, text))
    meter.finish()
    texts = [(entry, text) for entry, text in results if isinstance(text, Text)]
    refused = [(entry, text) for entry, text in results if isinstance(text, Refused)]
    files = _snapshots(refused) if snapshots else ()
    refused = [(entry, text) for entry, text in refused if not (files and _is_snapshot(entry, text))]
    if not texts:
        if files:
            return Loaded([], files)
        raise InputError(_one_line(_refusal(refused, found.notes)))
    notes = [*_reduced([text for _, text in texts if text.reduced]), *found.notes, *_passed_over(refused)]
    documents = _documents(texts)
    documents[0].input_notes += tuple(notes)
    documents[0].passed_over = tuple(entry.name for entry, _ in refused)
    return Loaded(documents, files)


def _is_snapshot(entry: Entry, text: Refused) -> bool:
    """One that can be read again: standard input cannot."""
    return text.kind == "snapshot" and entry.path is not None


def _snapshots(refused: Sequence[tuple[Entry, Refused]]) -> tuple[SnapshotFile, ...]:
    return tuple(
        SnapshotFile(entry.name, str(entry.path), entry.size, entry.explicit)
        for entry, text in refused
        if _is_snapshot(entry, text)
    )


def _one_line(sentence: str) -> str:
    """`sentence` without what file names may do to a terminal: controls, line ends, marks of direction."""
    return "".join(character if character.isprintable() else "?" for character in sentence)


class _Meter:
    """Adds up bytes and calls `progress` about 200 times."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._step = max(1 << 20, total // 200)
        self._done = self._told = 0

    def tick(self, size: int) -> None:
        if self._progress is None:
            return
        self._done += size
        if self._done - self._told >= self._step:
            self._told = self._done
            self._progress(self._done, self._total)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)


def _read_one(entry: Entry, stdin: BinaryIO | None, limits: Limits, meter: _Meter) -> Text | Refused:
    try:
        if entry.path is None:
            raw = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
            if raw is None:  # closed, as under pythonw
                return Refused("unreadable", "closed", "Name a file instead.")
            return read_text(raw, limits, explicit=True, tick=meter.tick, ahead=True)
        with entry.path.open("rb", buffering=0) as file:
            ahead = entry.size >= _AHEAD_FROM
            return read_text(file, limits, explicit=entry.explicit, tick=meter.tick, ahead=ahead)
    except OSError as error:
        return Refused("unreadable", f"not readable ({error.strerror or error})", "Check its permissions.")


def _documents(texts: Sequence[tuple[Entry, Text]]) -> list[Document]:
    own_ranks = {}
    for index, (_, text) in enumerate(texts):
        rank = line_rank([region for _, region in text.regions])
        if rank is not None:
            own_ranks[index] = rank
    for index, rank in said_ranks([[region for _, region in text.regions] for _, text in texts]).items():
        own_ranks.setdefault(index, rank)
    places = place_files([entry.name for entry, _ in texts], own_ranks)
    documents: list[Document] = []
    for index, ((entry, text), place) in enumerate(zip(texts, places, strict=True)):
        document = build_document(
            entry.name,
            text.regions,
            size_bytes=text.size,
            rank=place.rank,
            attempt=place.attempt,
            notes=text.notes,
        )
        document.index = index
        document.damage = text.damage
        text.regions.clear()  # the lines hold the text now
        documents.append(document)
    if any(place.attempt is not None and place.rank is None for place in places):
        documents[0].input_notes += (_LOCAL_RANKS,)
    return documents


def _reduced(texts: Sequence[Text]) -> Iterator[str]:
    """One sentence about all large inputs."""
    if not texts:
        return
    kept, size = sum(text.kept for text in texts), sum(text.size for text in texts)
    what = "a large input" if len(texts) == 1 else f"{len(texts)} large inputs"
    yield (
        f"of {what}, {kept / (1 << 20):.1f} of {size / (1 << 20):.1f} MiB were read line by line: the beginning, the "
        "end, the surroundings of every kind of failure, and samples of the rest"
    )


def _passed_over(refused: Sequence[tuple[Entry, Refused]]) -> Iterator[str]:
    """One sentence for each reason. Empty files in directories are ordinary (a rank that printed nothing)."""
    by_kind: dict[str, list[str]] = {}
    for entry, text in refused:
        if text.kind != "empty" or entry.explicit:
            by_kind.setdefault(text.kind, []).append(entry.name)
    for kind, names in by_kind.items():
        shown = ", ".join(names[:_NAMES_IN_NOTE])
        if len(names) > _NAMES_IN_NOTE:
            shown += f" and {len(names) - _NAMES_IN_NOTE} more"
        yield f"passed over, because {_KIND_WORDS[kind]}: {shown}"


def _refusal(refused: Sequence[tuple[Entry, Refused]], notes: Sequence[str]) -> str:
    """Why there is nothing to explain, and what to do."""
    if len(refused) == 1:
        entry, text = refused[0]
        name = "standard input" if entry.path is None else entry.name
        if text.kind == "empty":
            return f"{name} is empty. Give the file or directory that the job's output (stdout and stderr) went to."
        return f"{name} is {text.what}. {text.advice}".rstrip()
    reasons = "; ".join([*_passed_over(refused), *notes[:2]]) or "all of them are empty"
    return (
        f"Nothing can be read in the {len(refused)} files ({reasons}). "
        "Give the file or directory that holds the job's output (stdout and stderr)."
    )
