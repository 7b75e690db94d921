"""Blocks that were there before the trace began: by frames, by when they were freed, and by the sizes they share.

Recording often starts after a warm-up, when parameters and optimizer state are long there and no event tells of them.
What such a trace still shows is backward making one gradient for each parameter that is trained, of the same size; and
Adam's two states have that size again. Where gradients are never dropped, backward adds to those of before the trace
and makes none; then the states that an optimizer's step replaces tell how many parameters there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.categories_runs import Runs
from oomph.diagnose.snapshot.labels import LabelColumns
from oomph.diagnose.snapshot.labels_events import NUMBER
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

Mask = NDArray[np.bool_]

_CATEGORY = {category: number for number, category in enumerate(CATEGORIES)}
_LIKELY = tuple(Certainty).index(Certainty.LIKELY)
_FORWARD, _BACKWARD, _OPTIMIZER, _LOAD = (
    NUMBER[phase] for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.LOAD)
)
#: States of a parameter's size that an optimizer may keep: Adam's two; of more the sizes say nothing.
_MOST_STATES = 2
#: The operators of a backward hold their own blocks for a few requests.
_JUST = 16
#: More blocks than the last parameter's states, which a loop's variables hold a little longer.
_AT_ONCE = 4


def before_the_trace(
    lives: Lifetimes, stack: NDArray[np.int32], label: LabelColumns, runs: Runs, columns: Columns
) -> None:
    """Decides what can be told of the blocks from before the trace."""
    mine = (lives.born < 0) & columns.open
    if not mine.any():
        return
    _by_frames(mine & (stack >= 0), label, runs, columns)
    if not runs.count:
        return
    silent = mine & (stack < 0)
    _by_free(silent & (lives.freed < lives.events), lives, runs, columns)
    _by_size(silent & (lives.freed >= lives.events), lives, runs, columns)


def _by_frames(mine: Mask, label: LabelColumns, runs: Runs, columns: Columns) -> None:
    """The snapshot's end shows the stack of a block that is still there: it outlived the phase that made it."""
    for category in (Category.OPTIMIZER_STATE, Category.PARAMETERS):
        those = mine & (label.category == _CATEGORY[category])
        columns.set(those, category, How.FRAMES)
        columns.certainty[those] = label.category_certainty[those]
    mine = mine & columns.open
    state = mine & (label.phase == _OPTIMIZER) & ~label.passing
    columns.set(state, Category.OPTIMIZER_STATE, How.FRAMES, Certainty.LIKELY)
    # An optimizer of the user's own may also have replaced the parameter.
    columns.weaken(state & ~label.optimizer_code)
    columns.set(mine & (label.phase == _BACKWARD), Category.GRADIENTS, How.FRAMES)
    loaded = mine & (label.phase == _LOAD) & (label.certainty <= _LIKELY)
    columns.set(loaded, Category.PARAMETERS, How.FRAMES)
    if not runs.has(Phase.BACKWARD):
        kept = mine & (label.phase == _FORWARD) & ~label.no_grad
        columns.set(kept, Category.ACTIVATIONS, How.FRAMES)


def _by_free(mine: Mask, lives: Lifetimes, runs: Runs, columns: Columns) -> None:
    """When it was freed."""
    # Behind the last request the last phase goes on.
    freed_run = np.minimum(runs.freed, runs.count - 1)
    freed_in = np.where(freed_run >= 0, runs.phase[np.maximum(freed_run, 0)], NUMBER[Phase.UNKNOWN])
    backwards = np.flatnonzero(runs.phase == _BACKWARD)
    if len(backwards):
        # The forward behind the first backward began before the trace, or all of it was there.
        surely = Certainty.LIKELY if runs.phase[0] == _BACKWARD else Certainty.POSSIBLE
        of_first = mine & (freed_run == backwards[0])
        columns.set(of_first, Category.ACTIVATIONS, How.LIFETIME, surely)
        # What an operator was at work on when the trace began is gone soon.
        requests = lives.born[lives.born >= 0]
        columns.weaken(of_first & (lives.freed < requests[min(_JUST, len(requests) - 1)]))
    gradients = np.unique(lives.requested_bytes[columns.is_(Category.GRADIENTS)])
    early = mine & columns.open & (freed_run <= 0) & (freed_in != _BACKWARD) & (freed_in != _OPTIMIZER)
    cleared = early & np.isin(lives.requested_bytes, gradients)
    columns.set(cleared, Category.GRADIENTS, How.SIZE, Certainty.POSSIBLE)
    # State that the optimizer replaced by a block of the same size, instead of writing into it.
    states = columns.is_(Category.OPTIMIZER_STATE) & (lives.born >= 0)
    kept = np.unique(np.stack((runs.born[states], lives.requested_bytes[states])), axis=1)
    for run in np.unique(kept[0]).tolist():
        sizes = kept[1][kept[0] == run]
        replaced = mine & columns.open & (freed_run == run) & np.isin(lives.requested_bytes, sizes)
        # Behind the step's last request zero_grad drops the gradients, all at once.
        behind = replaced & runs.ends_at(lives.freed)
        if int(behind.sum()) >= _AT_ONCE:
            columns.set(behind, Category.GRADIENTS, How.LIFETIME, Certainty.POSSIBLE)
        columns.set(replaced & columns.open, Category.OPTIMIZER_STATE, How.LIFETIME, Certainty.POSSIBLE)


def _by_size(mine: Mask, lives: Lifetimes, runs: Runs, columns: Columns) -> None:
    """One parameter for each gradient of a size; where more blocks stay, states. Which of several blocks of one size
    is the parameter is not recorded: only the sums are told."""
    gradients = one_backward(lives, runs, columns)
    ends = lives.freed >= lives.events
    parameters = lives.requested_bytes[columns.is_(Category.PARAMETERS) & ends]
    states = lives.requested_bytes[columns.is_(Category.OPTIMIZER_STATE) & ends]
    steps = runs.has(Phase.OPTIMIZER)
    sizes, counts = np.unique(gradients, return_counts=True)
    rows = np.flatnonzero(mine)
    rows = rows[np.argsort(lives.requested_bytes[rows], kind="stable")]
    sorted_sizes = lives.requested_bytes[rows]
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        first, after = (
            np.searchsorted(sorted_sizes, size, "left"),
            np.searchsorted(sorted_sizes, size, "right"),
        )
        there = rows[first:after]
        wanted = max(0, count - int((parameters == size).sum()))
        surely = Certainty.LIKELY if len(there) == wanted else Certainty.POSSIBLE
        columns.set(there[:wanted], Category.PARAMETERS, How.SIZE, surely)
        room = max(0, _MOST_STATES * count - int((states == size).sum())) if steps else 0
        columns.set(there[wanted : wanted + room], Category.OPTIMIZER_STATE, How.SIZE, Certainty.POSSIBLE)
    if steps and runs.has(Phase.BACKWARD):
        _by_states(
            rows[columns.open[rows] & ~np.isin(lives.requested_bytes[rows], sizes)], states, lives, columns
        )


def _by_states(rows: NDArray[np.intp], states: NDArray[np.int64], lives: Lifetimes, columns: Columns) -> None:
    """Parameters whose gradients are as old as they are, by the states that are known: as many blocks of a size as
    states are n parameters, n gradients and Adam's 2 n; twice as many, n of each and n of momentum."""
    held = lives.requested_bytes[rows]
    for size, count in zip(*(one.tolist() for one in np.unique(states, return_counts=True)), strict=True):
        there = rows[held == size]
        parameters = len(there) // 2
        if len(there) in (count, _MOST_STATES * count) and parameters * 2 == len(there):
            columns.set(there[:parameters], Category.PARAMETERS, How.SIZE, Certainty.POSSIBLE)
            columns.set(there[parameters:], Category.GRADIENTS, How.SIZE, Certainty.POSSIBLE)


def one_backward(lives: Lifetimes, runs: Runs, columns: Columns) -> NDArray[np.int64]:
    """Bytes of the gradients that one step makes: of the step that makes most. Those that are only possible ones, by
    being freed last, may be what the last operators used."""
    made = columns.is_(Category.GRADIENTS) & (runs.born >= 0) & (runs.freed > runs.born)
    made &= ~(runs.behind & (columns.certainty > _LIKELY))
    if not made.any():
        return np.zeros(0, np.int64)
    step = runs.next(_FORWARD)[runs.born[made]]
    values, counts = np.unique(step, return_counts=True)
    sizes: NDArray[np.int64] = lives.requested_bytes[made][step == values[np.argmax(counts)]]
    return sizes
