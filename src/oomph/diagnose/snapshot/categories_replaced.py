"""Parameters that an optimizer replaces instead of writing into them.

`p.data = p.data - lr * update` makes a new block in the optimizer's step and frees the old one right behind it. By its
life alone the new block is optimizer state, like `exp_avg = beta * exp_avg + ...` beside it. What tells them apart is
the block whose place it takes: of the blocks of one size that a step makes and keeps, the last one before a parameter
is freed is that parameter's successor.
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

_OPTIMIZER = NUMBER[Phase.OPTIMIZER]


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
    for run in np.unique(of_new).tolist():
        leaving = old[slice(*np.searchsorted(of_old, (run, run + 1)))]
        leaving = leaving[columns.has(leaving, Category.PARAMETERS)]
        coming = new[slice(*np.searchsorted(of_new, (run, run + 1)))]
        if len(leaving):
            columns.set(
                _successors(lives, leaving, coming), Category.PARAMETERS, How.LIFETIME, Certainty.POSSIBLE
            )


def _successors(lives: Lifetimes, leaving: NDArray[np.intp], coming: NDArray[np.intp]) -> NDArray[np.intp]:
    """Of the rows `coming`, those that take the place of a row of `leaving`: the last one born before it was freed,
    of its size. One that would follow two of them follows neither."""
    coming = coming[np.lexsort((lives.born[coming], lives.requested_bytes[coming]))]
    scale = lives.events + 1
    _, ranks = np.unique(
        np.concatenate((lives.requested_bytes[coming], lives.requested_bytes[leaving])), return_inverse=True
    )
    born = ranks[: len(coming)] * scale + lives.born[coming]
    freed = ranks[len(coming) :] * scale + lives.freed[leaving]
    index = np.searchsorted(born, freed) - 1
    found = index >= 0
    same = lives.requested_bytes[coming[np.maximum(index, 0)]] == lives.requested_bytes[leaving]
    values, counts = np.unique(index[found & same], return_counts=True)
    successors: NDArray[np.intp] = coming[values[counts == 1]]
    return successors
