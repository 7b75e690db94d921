"""Blocks that an optimizer makes in the place of others of which nothing is known.

In a recording that begins late, or whose oldest events are gone, a step replaces `m`, `v` and `p` alike, and no block
is known to be a parameter. Gradients tell how many there are: three kept blocks for each gradient of a size are two
states and the parameter. Which one is not recorded; an update needs the states, so the statement that keeps last is
taken for the parameter's, possibly. In any other case what takes an unknown block's place is a state possibly, not
likely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_before import one_backward
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.categories_runs import Runs
from oomph.diagnose.snapshot.labels_events import NUMBER
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import Category
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

_OPTIMIZER = NUMBER[Phase.OPTIMIZER]
_BY_LIFE = tuple(How).index(How.LIFETIME)
#: m, v and p.
_REPLACED = 3


def replaced_unknown(lives: Lifetimes, stack: NDArray[np.int32], runs: Runs, columns: Columns) -> None:
    """Weakens such states, and takes the youngest third for parameters where there is one for each gradient."""
    size = lives.requested_bytes
    made = columns.is_(Category.OPTIMIZER_STATE) & (columns.how == _BY_LIFE) & (runs.born >= 0)
    made &= (runs.phase_at_birth == _OPTIMIZER) & ~np.isin(
        size, np.unique(size[columns.is_(Category.PARAMETERS)])
    )
    if not made.any():
        return
    freed_run = np.minimum(runs.freed, runs.count - 1)
    leaves = (lives.freed < lives.events) & (freed_run >= 0) & (runs.born < freed_run)
    leaves &= runs.phase[np.maximum(freed_run, 0)] == _OPTIMIZER
    leaves &= np.isin(size, np.unique(size[made])) & ~columns.is_(Category.GRADIENTS)
    sizes, ranks = np.unique(size, return_inverse=True)
    # One number for each run and size.
    replaced = np.unique(freed_run[leaves] * len(sizes) + ranks[leaves])
    rows = np.flatnonzero(made)
    place = runs.born[rows] * len(sizes) + ranks[rows]
    rows, place = rows[np.isin(place, replaced)], place[np.isin(place, replaced)]
    mask = np.zeros(len(lives), bool)
    mask[rows] = True
    columns.weaken(mask)
    trained = dict(
        zip(
            *(one.tolist() for one in np.unique(one_backward(lives, runs, columns), return_counts=True)),
            strict=True,
        )
    )
    order = np.argsort(place, kind="stable")
    for group in np.split(rows[order], np.flatnonzero(np.diff(place[order])) + 1):
        wanted = trained.get(int(size[group[0]]), 0) if len(group) else 0
        if wanted and len(group) == _REPLACED * wanted:
            chosen = _last_statement(group, stack, wanted)
            columns.set(chosen, Category.PARAMETERS, How.LIFETIME, Certainty.POSSIBLE)


def _last_statement(group: NDArray[np.intp], stack: NDArray[np.int32], wanted: int) -> NDArray[np.intp]:
    """Of rows in the order of birth those of the stack that is used last, if it made one for each gradient."""
    values, first, counts = np.unique(stack[group], return_index=True, return_counts=True)
    last = int(np.argmax(first))
    return group[stack[group] == values[last]] if counts[last] == wanted else group[:0]
