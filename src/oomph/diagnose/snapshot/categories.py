"""What each block of a trace was for.

`categorise(lifetimes, block_stack, labels, event_phase, steps, breaks)` gives three columns with an entry per block:
category (index into CATEGORIES), how it was told (index into tuple(How)) and how surely (index into tuple(Certainty)).
`breaks` are the positions of out-of-memory events.

Two things speak: the frames of the allocation, and when the block was born and freed among the phases. The rules, the
later ones only for blocks that no earlier one decided:

1. Frames that are one thing whatever follows: cuBLAS workspaces, c10d and FSDP buffers, AccumulateGrad, the replicas
   of DataParallel.
2. Born in forward (categories_forward.py): freed before the next backward is a temporary; kept into it is an
   activation. A forward that a failed request or the trace's end cuts off has kept what was alive there.
3. Born in backward: freed there is a temporary (in a checkpoint's recompute: an activation, if it was kept beyond the
   recompute); alive when backward is over is a gradient.
4. Born in an optimizer's step: freed there is a temporary; alive afterwards is optimizer state, or the successor of a
   parameter that the step replaces (categories_replaced.py).
5. Born while loading or wrapping and alive afterwards: parameters, where frames say that a module made or moved them.
6. Blocks from before the trace (categories_before.py) by frames if the snapshot still has them, by when they were
   freed, and by sizes that parameters, gradients and Adam's two states share.
7. Copies of parameters that autocast makes (categories_casts.py), by frames and by half the size.
8. Blocks of a phase that was cut off take the category of earlier blocks of the same stack and size.
9. A size that only cuBLAS's workspace has.

What none of them decides is unknown. Sizes alone, requests whose own phase is unknown and names of the user's own
functions make an answer possible, never likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_before import before_the_trace
from oomph.diagnose.snapshot.categories_casts import copies_of_parameters
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.categories_forward import SOON, Forward
from oomph.diagnose.snapshot.categories_left import by_earlier_ones, by_size_in_backward, workspaces_by_size
from oomph.diagnose.snapshot.categories_replaced import follow_parameters
from oomph.diagnose.snapshot.categories_replaced_unknown import replaced_unknown
from oomph.diagnose.snapshot.categories_runs import BREAK, Runs
from oomph.diagnose.snapshot.labels import LabelColumns, Labels
from oomph.diagnose.snapshot.labels_events import NUMBER
from oomph.diagnose.snapshot.model import How, Steps
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_FORWARD, _BACKWARD, _OPTIMIZER, _LOAD, _INIT = (
    NUMBER[phase] for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.LOAD, Phase.INIT)
)
#: Phases that end a backward; an optimizer may step inside.
_NOT_BACKWARD = (BREAK, *(NUMBER[one] for one in Phase if one not in (Phase.BACKWARD, Phase.OPTIMIZER)))
_SHORT = np.array([NUMBER[one] for one in (Phase.EVAL, Phase.GENERATE, Phase.SAVE)], np.int8)
_NUMBER = {category: number for number, category in enumerate(CATEGORIES)}
_LIKELY = tuple(Certainty).index(Certainty.LIKELY)

#: What the last operators of a backward use is a few requests old at its end.
_JUST = 8


def categorise(
    lives: Lifetimes,
    block_stack: NDArray[np.int32],
    labels: Labels,
    event_phase: NDArray[np.int8],
    steps: Steps,
    breaks: Sequence[int] | Ints = (),
) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """(category, how, certainty) of each block of `lives`; see the module."""
    columns = Columns(len(lives))
    if len(lives):
        firsts = np.array(steps.first_positions, np.int64)
        lived = np.searchsorted(firsts, lives.freed) - np.searchsorted(firsts, lives.born, side="right")
        _Rules(lives, block_stack, labels, Runs(lives, event_phase, breaks), lived, columns).apply()
    return columns.category, columns.how, columns.certainty


class _Rules:
    def __init__(
        self,
        lives: Lifetimes,
        block_stack: NDArray[np.int32],
        labels: Labels,
        runs: Runs,
        steps_lived: NDArray[np.intp],
        columns: Columns,
    ) -> None:
        self._lives = lives
        self._steps_lived = steps_lived  # how many later steps began while the block was there
        self._stack = block_stack
        self._label: LabelColumns = labels.columns(block_stack)
        self._runs = runs
        self._columns = columns
        self._undecided_in_cut = np.zeros(len(lives), bool)

    def apply(self) -> None:
        self._by_frames_alone()
        self._forward()
        self._backward()
        self._optimizer()
        self._loading()
        self._short_phases()
        before_the_trace(self._lives, self._stack, self._label, self._runs, self._columns)
        follow_parameters(self._lives, self._runs, self._columns)
        replaced_unknown(self._lives, self._stack, self._runs, self._columns)
        copies_of_parameters(self._lives, self._label.cast, self._requests_lived, self._runs, self._columns)
        by_earlier_ones(self._undecided_in_cut, self._lives, self._stack, self._columns)
        in_backward = self._undecided_in_cut & (self._runs.phase_at_birth == _BACKWARD)
        sizes = self._sizes(Category.GRADIENTS, Category.PARAMETERS)
        by_size_in_backward(in_backward, np.isin(self._lives.requested_bytes, sizes), self._columns)
        workspaces_by_size(~self._label.cpp, self._lives, self._stack, self._columns)
        self._weaken()

    # -- frames -------------------------------------------------------------------------------------------------

    def _by_frames_alone(self) -> None:
        """The frames say it, however long the block lived."""
        says = self._label.category
        for category in (Category.WORKSPACE, Category.COMMUNICATION, Category.GRADIENTS):
            mask = says == _NUMBER[category]
            self._columns.set(mask, category, How.FRAMES)
            self._columns.certainty[mask] = self._label.category_certainty[mask]
        # DataParallel's replicas are made in forward and go with their forward's graph.
        replicas = (says == _NUMBER[Category.PARAMETERS]) & self._born(_FORWARD)
        self._columns.set(replicas, Category.PARAMETERS, How.FRAMES, Certainty.LIKELY)

    # -- phases -------------------------------------------------------------------------------------------------

    def _born(self, phase: np.int8) -> Mask:
        """Blocks born in that phase that nothing has decided yet."""
        mine: Mask = (self._runs.phase_at_birth == phase) & self._columns.open & (self._runs.born >= 0)
        return mine

    def _forward(self) -> None:
        mine = self._born(_FORWARD)
        if mine.any():
            Forward(
                mine, self._lives, self._stack, self._label, self._runs, self._requests_lived, self._columns
            ).apply(self._steps_lived)

    def _reduced(self) -> None:
        """What FSDP's reduce-scatter leaves is the sharded gradient: it outlives backward and is gone by the next."""
        runs, columns = self._runs, self._columns
        mine = columns.is_(Category.COMMUNICATION) & (runs.phase_at_birth == _BACKWARD) & (runs.born >= 0)
        if not mine.any():
            return
        forward = runs.next(_FORWARD)[runs.born]
        later = runs.next(_BACKWARD)[np.minimum(forward, runs.count - 1)]
        backward = np.where(forward < runs.count, later, runs.count)
        survives = (
            (runs.freed > runs.born) | (runs.behind & (self._requests_lived >= _JUST))
        ) & ~self._before_break()
        columns.set(
            mine & survives & (runs.freed <= backward), Category.GRADIENTS, How.LIFETIME, Certainty.LIKELY
        )

    def _backward(self) -> None:
        runs, columns = self._runs, self._columns
        self._reduced()
        self._recomputed()
        passing = self._born(_BACKWARD) & self._label.passing
        columns.set(passing, Category.TEMPORARIES, How.FRAMES, Certainty.LIKELY)
        mine = self._born(_BACKWARD)
        if not mine.any():
            return
        gone = (runs.freed == runs.born) | (
            # An optimizer inside backward cuts it into pieces; a temporary may live across.
            (runs.freed < runs.next(*_NOT_BACKWARD)[runs.born]) & (self._phase_when_freed() == _BACKWARD)
        )
        columns.set(mine & gone & ~runs.behind, Category.TEMPORARIES, How.LIFETIME, Certainty.LIKELY)
        broken = self._before_break()
        self._undecided_in_cut |= mine & ~gone & broken
        whole = mine & ~gone & ~broken & ~runs.behind
        columns.set(whole, Category.GRADIENTS, How.LIFETIME, Certainty.LIKELY)
        # Where the parameters are known, a gradient has the size of one.
        parameters = self._sizes(Category.PARAMETERS)
        fits = np.isin(self._lives.requested_bytes, parameters)
        if len(parameters):
            columns.weaken(whole & ~fits)
        self._behind_backward(mine & runs.behind, fits)

    def _behind_backward(self, mine: Mask, fits: Mask) -> None:
        """Freed behind the last request of a backward: what its last operators used, or gradients that are dropped
        after an optimizer step that allocates nothing. Gradients have the size of a parameter, and most are older."""
        columns, lives = self._columns, self._lives
        columns.set(mine & fits, Category.GRADIENTS, How.LIFETIME, Certainty.LIKELY)
        columns.weaken(mine & fits & (self._requests_lived < _JUST))
        # Without known parameters, sizes of blocks from before the trace that stay.
        stay = lives.requested_bytes[(lives.born < 0) & (lives.freed == lives.events)]
        maybe = (
            mine & ~fits & (np.isin(lives.requested_bytes, np.unique(stay)) | (self._requests_lived > SOON))
        )
        columns.set(maybe, Category.GRADIENTS, How.LIFETIME, Certainty.POSSIBLE)
        columns.set(mine & ~fits & ~maybe, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)

    @cached_property
    def _requests_lived(self) -> Ints:
        """How many requests came while each block was there."""
        return np.searchsorted(self._lives.born, self._lives.freed) - np.arange(len(self._lives))

    def _sizes(self, *categories: Category) -> Ints:
        """Bytes of the blocks whose frames say that they are one of these."""
        numbers = np.array([_NUMBER[category] for category in categories], np.int8)
        return np.unique(self._lives.requested_bytes[np.isin(self._label.category, numbers)])

    def _recomputed(self) -> None:
        """Born in a checkpoint's recompute: what is kept beyond the recompute is what backward needs."""
        mine = self._born(_BACKWARD) & self._label.recompute
        if not mine.any():
            return
        inside = self._lives.born >= 0
        requests = self._lives.born[inside]
        again = self._label.recompute[inside]
        part = np.cumsum(np.append(True, again[1:] != again[:-1]))
        index = np.maximum(np.searchsorted(requests, self._lives.freed, side="left") - 1, 0)
        own = np.zeros(len(self._lives), np.int64)
        own[inside] = part
        kept = part[index] != own
        self._columns.set(mine & kept, Category.ACTIVATIONS, How.LIFETIME, Certainty.LIKELY)
        cut = mine & ~kept & (self._runs.freed > self._runs.born)
        self._columns.set(cut, Category.ACTIVATIONS, How.LIFETIME, Certainty.POSSIBLE)

    def _optimizer(self) -> None:
        runs, columns, label = self._runs, self._columns, self._label
        mine = self._born(_OPTIMIZER)
        if not mine.any():
            return
        gone = (runs.freed == runs.born) | (
            (runs.freed < runs.next(_FORWARD, _BACKWARD, BREAK)[runs.born])
            & (self._phase_when_freed() == _OPTIMIZER)
            & (self._steps_lived == 0)
        )
        columns.set(mine & (gone | label.passing), Category.TEMPORARIES, How.LIFETIME, Certainty.LIKELY)
        survives = mine & ~gone & ~label.passing
        state = survives & (label.category == _NUMBER[Category.OPTIMIZER_STATE])
        columns.set(state, Category.OPTIMIZER_STATE, How.FRAMES, Certainty.LIKELY)
        last = runs.born == runs.count - 1
        cut = survives & ~state & self._before_break()
        columns.set(cut & label.optimizer_code, Category.TEMPORARIES, How.FRAMES, Certainty.LIKELY)
        self._undecided_in_cut |= cut & ~label.optimizer_code
        leftover = survives & ~state & last & (self._lives.freed < self._lives.events)
        columns.set(leftover, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)
        columns.set(
            survives & ~state & ~cut & ~leftover,
            Category.OPTIMIZER_STATE,
            How.LIFETIME,
            Certainty.LIKELY,
        )

    def _loading(self) -> None:
        runs, columns, says = self._runs, self._columns, self._label.category
        mine = self._born(_LOAD) | self._born(_INIT)
        gone = mine & (runs.freed == runs.born)
        columns.set(gone, Category.TEMPORARIES, How.LIFETIME, Certainty.LIKELY)
        for category in (Category.OPTIMIZER_STATE, Category.PARAMETERS):
            stays = mine & ~gone & (says == _NUMBER[category])
            columns.set(stays, category, How.FRAMES)
            columns.certainty[stays] = self._label.category_certainty[stays]
        # torch.load to the device and the like: weights most often, an optimizer's state at times.
        loads = mine & ~gone & columns.open & self._born(_LOAD)
        columns.set(loads & self._sure, Category.PARAMETERS, How.FRAMES, Certainty.POSSIBLE)

    @property
    def _sure(self) -> Mask:
        """Blocks whose stack's phase rests on a library's frames."""
        sure: Mask = self._label.certainty <= _LIKELY
        return sure

    def _short_phases(self) -> None:
        """Evaluation, generation and saving keep nothing for later, but for results and caches."""
        runs, columns = self._runs, self._columns
        mine = np.isin(runs.phase_at_birth, _SHORT) & columns.open & (runs.born >= 0)
        columns.set(mine & (runs.freed == runs.born), Category.TEMPORARIES, How.LIFETIME, Certainty.LIKELY)
        cut = mine & (runs.freed > runs.born) & self._before_break()
        columns.set(cut, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)

    # -- helpers ------------------------------------------------------------------------------------------------

    def _before_break(self) -> Mask:
        """Blocks born in a run that a failed request ended."""
        runs = self._runs
        ends = np.append(np.append(runs.phase[1:], np.int8(NUMBER[Phase.UNKNOWN])) == BREAK, False)
        return ends[np.where(runs.born >= 0, runs.born, runs.count)]

    def _phase_when_freed(self) -> NDArray[np.int8]:
        runs = self._runs
        phases = np.append(runs.phase, NUMBER[Phase.UNKNOWN])
        return phases[np.where(runs.freed >= 0, runs.freed, runs.count)]

    def _weaken(self) -> None:
        """What rests on the phase of a request that is itself unknown, or told by a name of the user's own alone, is
        possible."""
        by_life = self._columns.how == tuple(How).index(How.LIFETIME)
        self._columns.weaken(by_life & (self._runs.unsaid | (~self._sure & (self._stack >= 0))))
