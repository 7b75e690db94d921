"""Snapshots side by side: what is new between two runs, and which of a job's ranks is not like the others.

Everything is arithmetic on what was alive at each side's moment: by category, and by stack (`compare_match` says how
stacks are matched). Why a rank holds more is not told; where it was allocated is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.compare_match import Content, match
from oomph.diagnose.snapshot.compare_model import (
    CategoryRow,
    Deviation,
    Matching,
    Side,
    SnapshotComparison,
    StackRow,
)
from oomph.diagnose.snapshot.compare_says import about_many, about_two
from oomph.diagnose.snapshot.compare_sides import Named, named, settings_that_differ, side_of
from oomph.diagnose.snapshot.compare_trace import divergence_of, in_windows, notes_on
from oomph.errors import UsageError
from oomph.memory.categories import CATEGORIES, Category
from oomph.units import MIB

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Rows of stacks that are kept; the rest is counted.
MOST_ROWS = 200
#: Sides of many that are taken apart by stack; a report shows fewer.
MOST_DEVIATIONS = 32
#: Two cuBLAS workspaces of a Hopper GPU (32 MiB each; aten/src/ATen/cuda/CublasHandlePool.cpp), one for the main thread
#: and one for autograd's: a difference of this size can be nothing but which library call came first.
_LIBRARIES_BYTES = 64 * MIB
#: Small jobs: a tenth of all is a difference, however few bytes it is.
_MOST_SHARE = 0.1
#: Large jobs: ranks that do the same work differ by the lengths of their batches.
_LEAST_SHARE = 0.01


def compare(items: Sequence[tuple[str, Analysis]]) -> SnapshotComparison:
    """Compares what was alive at the moment of each item, a label and an analysis: two snapshots, two moments or
    devices of one, or the ranks of a job. Two are set against each other, more against the middle one.

    Raises UsageError for fewer than two. Devices that were never used are left out, with a note.
    """
    used = [item for item in items if len(item[1].timeline) or item[1].device.segments]
    notes = tuple(
        f"{label}, device {analysis.index}, was not used and is left out"
        for label, analysis in items
        if not (len(analysis.timeline) or analysis.device.segments)
    )
    if len(used) < 2:
        raise UsageError("comparing takes two snapshots or more, or one of several devices that were used")
    noun, sides = named(used)
    return _two(noun, sides, notes) if len(sides) == 2 else _many(noun, sides, notes)


def threshold_bytes(allocated_bytes: int) -> int:
    """From which difference on a side is not like the middle one, which has `allocated_bytes`: 64 MiB, but at most a
    tenth and at least a hundredth of it."""
    least, most = int(_LEAST_SHARE * allocated_bytes), int(_MOST_SHARE * allocated_bytes)
    return max(least, min(_LIBRARIES_BYTES, most))


def _two(noun: str, named_sides: Sequence[Named], notes: tuple[str, ...]) -> SnapshotComparison:
    named_sides = in_windows(named_sides)
    sides = tuple(map(side_of, named_sides))
    totals = _totals(named_sides)
    categories = _category_rows(totals, middle=0)
    rows = match(Content(named_sides[0].analysis), Content(named_sides[1].analysis))
    matching = _matching(rows)
    divergence = divergence_of(named_sides)
    return SnapshotComparison(
        what="two",
        noun=noun,
        sides=sides,
        says=about_two(sides[0], sides[1], categories, rows),
        categories=categories,
        stacks=tuple(rows[:MOST_ROWS]),
        left_out=len(rows[MOST_ROWS:]),
        left_out_bytes=sum(abs(row.difference_bytes) for row in rows[MOST_ROWS:]),
        matching=matching,
        settings=settings_that_differ(named_sides),
        certainty=_certainty(sides, matching),
        notes=(*notes, *_notes(named_sides, sides, matching), *notes_on(divergence)),
        divergence=divergence,
    )


def _many(noun: str, named_sides: Sequence[Named], notes: tuple[str, ...]) -> SnapshotComparison:
    sides = tuple(map(side_of, named_sides))
    totals = _totals(named_sides)
    middle = _middle(totals)
    threshold = threshold_bytes(sides[middle].allocated_bytes)
    distance = np.maximum(
        np.abs(totals - totals[middle]).max(axis=1), np.abs((totals - totals[middle]).sum(axis=1))
    )
    deviations = _deviations(named_sides, totals, middle, np.flatnonzero(distance > threshold).tolist())
    alike = [index for index in range(len(sides)) if distance[index] <= threshold]
    held = [sides[index].allocated_bytes for index in alike]
    matching = _matching([row for one in deviations for row in one.stacks])
    categories = _category_rows(totals, middle)
    spread = max(held) - min(held)
    return SnapshotComparison(
        what="many",
        noun=noun,
        sides=sides,
        says=about_many(noun, sides, middle, deviations, alike, spread),
        categories=categories,
        matching=matching,
        settings=settings_that_differ(named_sides),
        deviations=tuple(deviations),
        middle=middle,
        alike=tuple(sides[index].label for index in alike),
        alike_bytes=spread,
        threshold_bytes=threshold,
        certainty=_certainty(sides, matching),
        notes=(*notes, *_notes(named_sides, sides, matching)),
    )


def _totals(sides: Sequence[Named]) -> NDArray[np.int64]:
    """Bytes alive, by side and category."""
    result = np.zeros((len(sides), len(CATEGORIES)), np.int64)
    for index, side in enumerate(sides):
        analysis = side.analysis
        np.add.at(
            result[index], analysis.block_category[analysis.alive].astype(np.intp), analysis.alive_bytes
        )
    return result


def _middle(totals: NDArray[np.int64]) -> int:
    """The side that the others are nearest to, in bytes by category; the first of several. Unlike a mean or a median
    it is one of them, so that its stacks can be compared too."""
    distances = [int(np.abs(totals - row).sum()) for row in totals]
    return distances.index(min(distances))


def _category_rows(totals: NDArray[np.int64], middle: int) -> tuple[CategoryRow, ...]:
    rows = [
        CategoryRow(category, tuple(totals[:, index].tolist()), int(totals[middle, index]))
        for index, category in enumerate(CATEGORIES)
        if totals[:, index].any()
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_bytes)))


def _deviations(
    sides: Sequence[Named], totals: NDArray[np.int64], middle: int, indices: Sequence[int]
) -> list[Deviation]:
    """Those that differ from the middle one, largest difference first."""
    differences = (totals - totals[middle]).sum(axis=1).tolist()
    reference = Content(sides[middle].analysis)
    found = []
    for place, index in enumerate(sorted(indices, key=lambda each: (-abs(differences[each]), each))):
        rows = match(reference, Content(sides[index].analysis)) if place < MOST_DEVIATIONS else []
        found.append(
            Deviation(
                label=sides[index].label,
                side=index,
                difference_bytes=differences[index],
                categories=_by_category(totals[index] - totals[middle]),
                stacks=tuple(rows[:MOST_ROWS]),
            )
        )
    return found


def _by_category(difference: NDArray[np.int64]) -> tuple[tuple[Category, int], ...]:
    found = [(category, size) for category, size in zip(CATEGORIES, difference.tolist(), strict=True) if size]
    return tuple(sorted(found, key=lambda one: -abs(one[1])))


def _matching(rows: Sequence[StackRow]) -> tuple[Matching, ...]:
    """What was needed to match the rows, in the order of `Matching`."""
    used = {row.matching for row in rows}
    return tuple(one for one in Matching if one in used)


def _certainty(sides: Sequence[Side], matching: Sequence[Matching]) -> Certainty:
    """Sums of bytes are certain. That they are comparable is not where moments or stacks are not the same."""
    same = len({side.moment for side in sides}) == 1
    return Certainty.CERTAIN if same and set(matching) <= {Matching.STACK} else Certainty.LIKELY


def _notes(named_sides: Sequence[Named], sides: Sequence[Side], matching: Sequence[Matching]) -> list[str]:
    notes = []
    moments = list(dict.fromkeys(side.moment for side in sides))
    if len(moments) > 1:
        notes.append(
            f"the moments are not of one kind ({', '.join(moments)}): some of the difference may be theirs"
        )
    for one, side in zip(named_sides, sides, strict=True):
        analysis = one.analysis
        unknown = int(analysis.alive_bytes[analysis.block_stack[analysis.alive] < 0].sum())
        if unknown * 10 > side.allocated_bytes:
            share = round(100 * unknown / side.allocated_bytes)
            notes.append(
                f"{side.label}: {share} % of what was alive has no stack, so it is compared by category only"
            )
    if Matching.MOVED in matching:
        notes.append(
            "lines, folders or C++ frames are not the same: such stacks were matched by their Python functions"
        )
    if Matching.PLACE in matching:
        notes.append(
            "some stacks were matched by the place in the user's code, though something else called it"
        )
    return notes
