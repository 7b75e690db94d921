"""Files that other processes read, with the same result as if they had been read here.

What a file may keep depends on what those before it kept (`Limits.next_file`), which is not known when many are read at
once. So each is read with the most that it could ever keep, and a text says down to which bound it would have been the
same; where a file's true bound is below that, or anything else is amiss, it is read once more, here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oomph.evidence.sources.discover import Entry
from oomph.evidence.sources.limits import Limits
from oomph.evidence.sources.read import Refused, Text, read_text
from oomph.evidence.sources.streams import READ_ERROR


@dataclass(frozen=True)
class Wanted:
    """A file to read. `explicit`: it was named itself, not found in a folder."""

    path: Path
    explicit: bool
    size: int
    limits: Limits


#: Reads many files; None for those of which it has no text.
Elsewhere = Callable[[Sequence[Wanted]], Sequence[Text | None]]


@dataclass(frozen=True)
class Far:
    """What was read of a file, and with which limits."""

    text: Text
    limits: Limits

    def under(self, own: Limits) -> Text | None:
        """The text, if reading here with `own` would have come to the same."""
        if replace(own, kept=0) != replace(self.limits, kept=0):
            return None
        return self.text if self.text.needs <= own.kept <= self.limits.kept else None


def read_elsewhere(entries: Sequence[Entry], limits: Limits, elsewhere: Elsewhere) -> Mapping[int, Far]:
    """What others have read, by the entry's number; the rest is to be read here."""
    wanted = {
        index: Wanted(entry.path, entry.explicit, entry.size, limits.next_file(0, index, len(entries)))
        for index, entry in enumerate(entries)
        if entry.path is not None
    }
    texts = elsewhere(list(wanted.values()))
    return {
        index: Far(text, one.limits)
        for (index, one), text in zip(wanted.items(), texts, strict=True)
        if text is not None
    }


def read_wanted(wanted: Wanted) -> Text | None:
    """In the other process: the text of a file. None where there is none: why, is found out where it is said."""
    try:
        with wanted.path.open("rb", buffering=0) as file:
            text = read_text(file, wanted.limits, explicit=wanted.explicit, tick=lambda _: None)
    except OSError:
        return None
    if isinstance(text, Refused) or any(note.startswith(READ_ERROR) for note in text.notes):
        return None  # a file server may fail this machine and not the next
    return text
