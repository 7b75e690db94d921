"""Phases, steps, categories and labels of a trace: known, not told from anything."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How, Steps
from oomph.evidence.snapshot import Columns
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.lifetimes import Lifetimes
from oomph.memory.timeline import Kind, Timeline
from oomph.phases import Phase

_TRAINING = np.array(
    [tuple(Phase).index(phase) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)], np.int8
)
_HOWS, _CERTAINTIES = tuple(How), tuple(Certainty)
_UNKNOWN = CATEGORIES.index(Category.UNKNOWN)
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def exact_steps(columns: Columns, timeline: Timeline, done: int) -> Steps:
    """The optimizer steps of a trace, of which it counted `done`. One begins with its first request in forward,
    backward or the optimizer: what is loaded before is before step 0, and what follows the last step is none."""
    requests = timeline.positions(Kind.ALLOC)
    training = requests[np.isin(columns.phase[requests], _TRAINING)]
    steps, first = np.unique(columns.step[training], return_index=True)
    positions = training[first]
    # What an optimizer does after its last step is no step of its own.
    forward = columns.phase[positions] != _TRAINING[2] if len(positions) else np.zeros(0, bool)
    kept = positions[(steps < done) | forward]
    if not len(kept) or not done:
        return Steps(
            0, How.TRACED, Certainty.CERTAIN, "the trace saw no optimizer step", tuple(kept.tolist())
        )
    return Steps(done, How.TRACED, Certainty.CERTAIN, "the trace counted them", tuple(kept.tolist()))


def exact_categories(
    columns: Columns, timeline: Timeline, lives: Lifetimes
) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """Category, how it was told and how surely, of each block."""
    category = of_blocks(columns, 0, timeline, lives, _UNKNOWN).astype(np.int8)
    known = category != _UNKNOWN
    how = np.where(known, _HOWS.index(How.TRACED), _HOWS.index(How.NONE)).astype(np.int8)
    sure = np.where(known, _CERTAINTIES.index(Certainty.CERTAIN), _CERTAINTIES.index(Certainty.POSSIBLE))
    return category, how, sure.astype(np.int8)


def of_blocks(
    columns: Columns, which: int, timeline: Timeline, lives: Lifetimes, missing: int
) -> NDArray[np.int32]:
    """The category (`which` is 0) or the label (1) of each block; `missing` for blocks from before a part of a trace of
    which it says nothing."""
    column = (columns.category, columns.label)[which]
    result = np.full(len(lives), missing, np.int32)
    inside = lives.born >= 0
    result[inside] = column[np.searchsorted(timeline.positions(Kind.ALLOC), lives.born[inside])]
    if columns.before:
        rows = np.flatnonzero(~inside)
        for row, address in zip(rows.tolist(), lives.address[rows].tolist(), strict=True):
            known = columns.before.get(address)
            if known is not None:
                result[row] = known[which]
    return result


def pattern_of(label: str) -> str:
    """A label with "*" for each part that is a number: layers that are alike have one. A label of numbers alone stays
    as it is."""
    pattern = _NUMBER.sub("*", label)
    return pattern if set(pattern) - {"*", "."} else label


def shared_label(labels: Iterable[str]) -> str:
    """One text for the labels of several blocks: the label, "layers.*.mlp" where they differ in numbers, or what their
    beginnings have in common; "" where that is nothing."""
    every = list(dict.fromkeys(label for label in labels if label))
    if len(every) < 2:
        return every[0] if every else ""
    patterns = list(dict.fromkeys(map(pattern_of, every)))
    if len(patterns) == 1:
        return patterns[0]
    parts = [pattern.split(".") for pattern in patterns]
    common: list[str] = []
    for pieces in zip(*parts, strict=False):
        if len(set(pieces)) > 1:
            break
        common.append(pieces[0])
    if not set(common) - {"*"}:
        return ""
    return ".".join(common if common[-1] == "*" else [*common, "*"])
