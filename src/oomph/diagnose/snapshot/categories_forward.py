"""Blocks that a forward made: what a backward takes up, what a graph keeps that no backward ever takes up, and what the
forward drops itself.

A forward with a backward behind it is plain: what is alive when that begins was kept for it. Where none follows, the
graph tells itself: it keeps every tenth block or more, all of them until the output goes or the trace ends. A forward
without gradients (inference below torch.no_grad(), which leaves no frame where it is a `with`) keeps next to nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.categories_runs import BREAK, Runs
from oomph.diagnose.snapshot.labels import LabelColumns
from oomph.diagnose.snapshot.labels_events import NUMBER
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import Category
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

Mask = NDArray[np.bool_]

_FORWARD, _BACKWARD = NUMBER[Phase.FORWARD], NUMBER[Phase.BACKWARD]
#: A temporary of a forward is seldom there for more requests than a layer makes.
SOON = 64
#: Of a forward's blocks a graph keeps at least this part: 0.2 to 0.5 in real snapshots with gradients, below 0.02 in
#: those without. A checkpointed forward keeps less, but a backward follows it.
_GRAPH = 0.1
#: What happens so often is what a stack does.
_SEVERAL = 2
#: So many old blocks freed between two requests are a graph that is dropped.
_AT_ONCE = 4


class Forward:
    """The blocks born in forward (`mine`, those that nothing has decided yet). `lived`: how many requests came while
    each block of `lives` was there."""

    def __init__(
        self,
        mine: Mask,
        lives: Lifetimes,
        stack: NDArray[np.int32],
        label: LabelColumns,
        runs: Runs,
        lived: NDArray[np.int64],
        columns: Columns,
    ) -> None:
        self._mine, self._lives, self._stack, self._label = mine, lives, stack, label
        self._runs, self._lived, self._columns = runs, lived, columns
        stop = runs.next(_BACKWARD, BREAK)[runs.born]
        self._stop = stop
        self._kept = runs.freed >= stop
        self._cut: Mask = stop < runs.next(_BACKWARD)[runs.born]  # by a failed request
        self._open_end: Mask = stop == runs.count

    def apply(self, steps_lived: NDArray[np.intp]) -> None:
        """Decides them. `steps_lived`: how many later steps began while each block was there."""
        mine, kept, columns = self._mine, self._kept, self._columns
        into_backward = mine & kept & ~self._cut & ~self._open_end
        columns.set(into_backward, Category.ACTIVATIONS, How.LIFETIME, Certainty.LIKELY)
        # What outlives the next step too was kept for something else, or leaks.
        columns.weaken(into_backward & (steps_lived >= 2))
        columns.set(mine & ~kept, Category.TEMPORARIES, How.LIFETIME, Certainty.LIKELY)
        graph = self._graph()
        trains = self._trains()
        self._cut_off(mine & kept & self._cut, graph, trains)
        ends = self._lives.freed >= self._lives.events
        self._dropped(mine & ~ends & self._open_end, graph)
        self._ended(mine & ends & self._open_end, graph, trains)

    def _trains(self) -> bool:
        runs = self._runs
        return bool(self._label.trains.any()) or runs.has(Phase.BACKWARD) or runs.has(Phase.OPTIMIZER)

    def _graph(self) -> Mask:
        """Of each block, whether the forward that made it keeps a graph, by how many of its blocks last."""
        runs, mine = self._runs, self._mine & ~self._label.no_grad & ~self._label.cast
        lasts = mine & (self._kept | (self._lived > SOON))
        total = np.bincount(runs.born[mine], minlength=runs.count + 1)
        lasting = np.bincount(runs.born[lasts], minlength=runs.count + 1)
        keeps: Mask = (lasting >= np.maximum(1, total * _GRAPH))[runs.born]
        return keeps & ~self._label.no_grad

    def _cut_off(self, mine: Mask, graph: Mask, trains: bool) -> None:
        """Alive when a request failed. Without a sign of training, a graph is likely where more than a layer's
        temporaries are alive."""
        columns = self._columns
        columns.set(mine, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)
        surely = Certainty.LIKELY if trains or bool((self._lived[mine] > SOON).any()) else Certainty.POSSIBLE
        kept = mine & (graph | trains) & ~self._label.no_grad
        columns.set(kept, Category.ACTIVATIONS, How.LIFETIME, surely)
        columns.set(self._under_way(mine), Category.TEMPORARIES, How.LIFETIME, Certainty.LIKELY)

    def _under_way(self, mine: Mask) -> Mask:
        """Of these, the young ones of whose stack and size nothing was kept before, but several were dropped: they are
        temporaries of the layer that failed."""
        young = mine & (self._lived <= SOON) & (self._stack >= 0)
        if not young.any():
            return young
        alike = self._mine & np.isin(self._stack, np.unique(self._stack[young]))
        rows = np.flatnonzero(alike)
        keys = np.stack((self._stack[rows].astype(np.int64), self._lives.requested_bytes[rows]))
        _, key = np.unique(keys, axis=1, return_inverse=True)
        key = key.reshape(-1)
        dropped = np.bincount(key, ~self._kept[rows])
        kept = np.bincount(key, self._kept[rows] & ~young[rows])
        temporary = np.zeros(len(young), bool)
        temporary[rows] = ((dropped >= _SEVERAL) & (kept == 0))[key]
        return young & temporary

    def _dropped(self, mine: Mask, graph: Mask) -> None:
        """Freed, and no backward follows their forward: a graph that is dropped with its output goes at once, with what
        its last layers had kept."""
        columns = self._columns
        columns.set(mine & self._kept, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)
        late = mine & (self._lived > SOON) & ~self._label.no_grad
        columns.weaken(late)
        place = np.searchsorted(self._lives.born, self._lives.freed)
        # Of a forward that began before the trace, most of the graph is older than the trace.
        goes = (late & graph) | ((self._lives.born < 0) & (self._lives.freed < self._lives.events))
        freed, counts = np.unique(place[goes], return_counts=True)
        held = late | (mine & np.isin(place, freed[counts >= _AT_ONCE]))
        columns.set(held & graph, Category.ACTIVATIONS, How.LIFETIME, Certainty.POSSIBLE)

    def _ended(self, mine: Mask, graph: Mask, trains: bool) -> None:
        """Alive at the trace's end, and no backward follows their forward."""
        runs, columns = self._runs, self._columns
        columns.set(mine & self._label.no_grad, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)
        mine = mine & ~self._label.no_grad
        if trains:
            columns.set(mine, Category.ACTIVATIONS, How.LIFETIME, Certainty.LIKELY)
            columns.weaken(mine & ~graph)
            return
        # Inference keeps results, not activations; only the last forward may have been under way.
        last = int(np.flatnonzero(runs.phase == _FORWARD)[-1])
        held = mine & graph & (runs.born == last)
        columns.set(held, Category.ACTIVATIONS, How.LIFETIME, Certainty.POSSIBLE)
        # What the same code made before and dropped soon may have been an output with its graph, too.
        alike = self._mine & ~self._kept & self._open_end & (self._stack >= 0)
        columns.weaken(alike & np.isin(self._stack, np.unique(self._stack[held])))
