"""The events of a window as the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.places import place_of
from oomph.memory.categories import CATEGORIES
from oomph.memory.stacks import Frame
from oomph.memory.timeline import UNKNOWN, Kind
from oomph.phases import Phase
from oomph.report.exports.names import Names

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

_NUMBERED = np.int32


@dataclass(frozen=True, eq=False)
class Column:
    """One column. Numbers stand in `values`; where there are `words`, `values` are indices into them. Where `optional`
    is set, a value of -1 means that there is none."""

    name: str
    values: NDArray[np.signedinteger]
    words: tuple[str, ...] | None = None
    optional: bool = False

    def part(self, first: int, last: int) -> Column:
        """Rows `first` up to, not including, `last`."""
        return Column(self.name, self.values[first:last], self.words, self.optional)


def columns(analysis: Analysis, first: int, last: int, *, redact: bool = False) -> list[Column]:
    """All columns of the events [first, last), in the order in which they are written.

    position; time_us; kind; address; size_bytes; stream; pool (as PyTorch's memory_stats writes it: 0_0 is the default
    one); phase; category of the block that the event is about; step (from 0) in which the event happened;
    allocated_bytes and reserved_bytes after it; stack (a number that equal stacks share within the snapshot); place:
    function, file and line of the user's code in that stack. Of a trace also label: the module, the parameter or the
    operator that the block belongs to.
    """
    timeline, window = analysis.timeline, slice(first, last)
    rows = _rows_of_events(analysis)[window]
    positions = np.arange(first, last, dtype=np.int64)
    stacks = timeline.stack_ids(range(first, last)).astype(_NUMBERED)
    pools, pool = _pools(analysis, rows, window)
    places, place = _places(analysis, stacks, redact)
    known = rows >= 0
    category = np.full(len(rows), -1, _NUMBERED)
    category[known] = analysis.block_category[rows[known]]
    kinds = tuple(kind.name.lower() for kind in Kind)
    return [
        Column("position", positions),
        Column("time_us", timeline.time_us[window], optional=True),
        Column("kind", timeline.kind[window].astype(_NUMBERED), kinds),
        Column("address", timeline.address[window]),
        Column("size_bytes", timeline.size_bytes[window]),
        Column("stream", timeline.stream[window]),
        Column("pool", pool, pools, optional=True),
        Column("phase", analysis.event_phase[window].astype(_NUMBERED), tuple(map(str, Phase))),
        Column("category", category, tuple(map(str, CATEGORIES)), optional=True),
        Column("step", analysis.step_of(positions).astype(_NUMBERED), optional=True),
        Column("allocated_bytes", analysis.allocated_bytes[window]),
        Column("reserved_bytes", analysis.reserved_bytes[window]),
        Column("stack", stacks, optional=True),
        Column("place", place, places, optional=True),
        *_labels(analysis, rows, redact),
    ]


def _labels(analysis: Analysis, rows: NDArray[np.int64], redact: bool) -> list[Column]:
    """The column of labels; none where only a trace would know them."""
    if analysis.exact is None:
        return []
    every = analysis.exact.labels
    names = Names(redact=redact, source=analysis.snapshot.source, others=every)
    known = rows >= 0
    label = np.full(len(rows), -1, _NUMBERED)
    label[known] = analysis.block_label[rows[known]]
    words: dict[str, int] = {}
    # -1, none, is the last.
    translate = np.array([*(words.setdefault(names.text(one), len(words)) for one in every), -1], _NUMBERED)
    return [Column("label", translate[label], tuple(words), optional=True)]


def _rows_of_events(analysis: Analysis) -> NDArray[np.int64]:
    """The row (of `Lifetimes`) of the block that each event allocates or frees; -1 for other events."""
    lives = analysis.lifetimes
    events = len(analysis.timeline)
    result = np.full(events, -1, np.int64)
    rows = np.arange(len(lives), dtype=np.int64)
    frees = analysis.timeline.kind
    for column, kind in (
        (lives.done, Kind.FREE_COMPLETED),
        (lives.freed, Kind.FREE_REQUESTED),
        (lives.born, Kind.ALLOC),
    ):
        inside = (column >= 0) & (column < events)
        inside[inside] = frees[column[inside]] == kind
        result[column[inside]] = rows[inside]
    return result


def _pools(
    analysis: Analysis, rows: NDArray[np.int64], window: slice
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Where the event does not name its pool (before PyTorch 2.13), that of its block, which the segments tell."""
    timeline, lives = analysis.timeline, analysis.lifetimes
    pools = tuple(dict.fromkeys((*timeline.pools, *lives.pools)))
    number = {pool: index for index, pool in enumerate(pools)}
    result = timeline.pool[window].astype(_NUMBERED)
    of_block = np.array([number[pool] for pool in lives.pools] or [UNKNOWN], _NUMBERED)
    told = (result == UNKNOWN) & (rows >= 0)
    result[told] = of_block[lives.pool[rows[told]]]
    return tuple(f"{one}_{two}" for one, two in pools), result


def _places(
    analysis: Analysis, stacks: NDArray[np.int32], redact: bool
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The distinct places, and which of them each event has."""
    numbers = np.unique(stacks[stacks >= 0]).tolist()
    frames = {number: _frame_to_look_at(analysis, number) for number in numbers}
    names = Names(redact=redact, source=analysis.snapshot.source, frames=filter(None, frames.values()))
    words: dict[str, int] = {}
    translate = np.full(max(numbers, default=-1) + 2, -1, _NUMBERED)
    for number, frame in frames.items():
        if frame is not None:
            translate[number] = words.setdefault(names.place(frame), len(words))
    return tuple(words), translate[stacks]


def _frame_to_look_at(analysis: Analysis, number: int) -> Frame | None:
    """The user's own code in a stack; where there is none, the innermost frame."""
    frames = analysis.frames(number)
    return place_of(frames) or (frames[0] if frames else None)
