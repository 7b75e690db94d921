"""Parameters that an optimizer replaces instead of writing into them.

`p.data = p.data - lr * update` makes a new block in the optimizer's step and frees the old one right behind it. By its
life alone the new block is optimizer state, like `exp_avg = beta * exp_avg + ...` beside it. What tells them apart is
the block whose place it takes: when a parameter is freed, the youngest block of its size is what it was replaced by.
That one may be replaced in turn before the step is over (weight decay in a statement of its own, seen in real
snapshots), and is followed until a block that stays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.categories_runs import Runs
from oomph.diagnose.snapshot.labels_events import NUMBER
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import Category
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

Ints = NDArray[np.int64]

_OPTIMIZER = NUMBER[Phase.OPTIMIZER]
#: How often a parameter may be replaced in one step, and how many younger blocks of its size may be gone already.
_TIMES, _BACK = 4, 8


def follow_parameters(lives: Lifetimes, runs: Runs, columns: Columns) -> None:
    """Makes the successors of parameters parameters too, step by step, possibly."""
    parameters = columns.is_(Category.PARAMETERS)
    made = columns.is_(Category.OPTIMIZER_STATE) & (runs.phase_at_birth == _OPTIMIZER) & (runs.born >= 0)
    if not parameters.any() or not made.any():
        return
    freed_run = np.minimum(runs.freed, runs.count - 1)
    in_optimizer = (freed_run >= 0) & (runs.phase[np.maximum(freed_run, 0)] == _OPTIMIZER)
    gone = (lives.freed < lives.events) & in_optimizer & (runs.born < freed_run) & (parameters | made)
    old, new = np.flatnonzero(gone), np.flatnonzero(made)
    old = old[np.argsort(freed_run[old], kind="stable")]
    of_old, of_new = freed_run[old], runs.born[new]  # rows stand in the order of birth
    inside = np.flatnonzero((runs.phase_at_birth == _OPTIMIZER) & (runs.born >= 0))
    of_inside = runs.born[inside]
    short = (runs.freed == runs.born) | runs.behind
    for run in np.unique(of_new).tolist():
        leaving = old[slice(*np.searchsorted(of_old, (run, run + 1)))]
        leaving = leaving[columns.has(leaving, Category.PARAMETERS)]
        if len(leaving):
            young = inside[slice(*np.searchsorted(of_inside, (run, run + 1)))]
            found = _successors(lives, leaving, young, short)
            found = found[columns.has(found, Category.OPTIMIZER_STATE)]
            columns.set(found, Category.PARAMETERS, How.LIFETIME, Certainty.POSSIBLE)


def _successors(
    lives: Lifetimes, leaving: NDArray[np.intp], young: NDArray[np.intp], short: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Of the rows `young`, born in one step, those that take the place of a row of `leaving` and outlive the step (are
    not `short`): the youngest of its size that is there when it is freed. One that would follow two follows neither."""
    young = young[np.isin(lives.requested_bytes[young], np.unique(lives.requested_bytes[leaving]))]
    if not len(young):
        return young
    young = young[np.lexsort((lives.born[young], lives.requested_bytes[young]))]
    scale = lives.events + 1
    sizes = np.unique(lives.requested_bytes[young])
    leaving = leaving[np.isin(lives.requested_bytes[leaving], sizes)]
    born = np.searchsorted(sizes, lives.requested_bytes[young]) * scale + lives.born[young]
    base = np.searchsorted(sizes, lives.requested_bytes[leaving]) * scale
    moment = lives.freed[leaving]
    row = np.full(len(leaving), -1, np.intp)
    replaced = np.zeros(len(leaving), bool)
    for _ in range(_TIMES):
        row = _youngest(lives, young, born, base, moment)
        replaced = (row >= 0) & short[np.maximum(row, 0)]
        if not replaced.any():
            break
        moment = np.where(replaced, lives.freed[np.maximum(row, 0)], moment)
    values, counts = np.unique(row[(row >= 0) & ~replaced], return_counts=True)
    successors: NDArray[np.intp] = values[counts == 1]
    return successors


def _youngest(
    lives: Lifetimes, young: NDArray[np.intp], born: Ints, base: Ints, moment: Ints
) -> NDArray[np.intp]:
    """For each moment the row of `young` that was born last before it and is there after it, of the size whose ranks
    begin at `base`; -1 where there is none. `born` are sizes and births of `young`, in order."""
    found = np.full(len(moment), -1, np.intp)
    index = np.searchsorted(born, base + moment) - 1
    for _ in range(_BACK):
        there = (index >= 0) & (found < 0) & (born[np.maximum(index, 0)] >= base)
        there &= lives.freed[young[np.maximum(index, 0)]] > moment
        found[there] = young[index[there]]
        index -= 1
    return found
