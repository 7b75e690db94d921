"""What was allocated at a moment: by category, by stack, by phase, and how the free lists looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.exact import shared_label
from oomph.diagnose.snapshot.model import Holder, How, PoolUse, Share
from oomph.diagnose.snapshot.places import place_of
from oomph.memory.allocator.layout import INACTIVE, SegmentState
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.holes import holes
from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

_HOWS = tuple(How)
_CERTAINTIES = tuple(Certainty)
_PHASES = tuple(Phase)
#: Categories whose labels name what made the block: a module or an operator, not the parameter that it belongs to.
_MADE = np.array(
    [
        CATEGORIES.index(one)
        for one in (Category.ACTIVATIONS, Category.TEMPORARIES, Category.WORKSPACE, Category.COMMUNICATION)
    ],
    np.int8,
)
#: A share's certainty is the weakest of what told at least this part of its bytes.
_COUNTS = 0.1


def shares_of(analysis: Analysis) -> tuple[Share, ...]:
    """The bytes of each category alive at the moment, largest first."""
    rows, sizes = analysis.alive, analysis.alive_bytes
    category = analysis.block_category[rows]
    result = []
    for number in np.unique(category).tolist():
        mine = category == number
        part, bytes_ = rows[mine], sizes[mine]
        result.append(
            Share(
                category=CATEGORIES[number],
                bytes=int(bytes_.sum()),
                blocks=len(part),
                how=_HOWS[_heaviest(analysis.block_how[part], bytes_)],
                certainty=_weakest(analysis.block_certainty[part], bytes_),
            )
        )
    return tuple(sorted(result, key=lambda share: -share.bytes))


def holders_of(analysis: Analysis, rows: np.typing.NDArray[np.intp] | None = None) -> tuple[Holder, ...]:
    """Blocks alive at the moment by the stack that allocated them, largest first. Blocks of one stack but of several
    categories are held apart; so are those without a stack of which a trace knows what made them."""
    chosen = analysis.alive if rows is None else rows
    sizes = analysis.alive_bytes if rows is None else analysis.lifetimes.size_bytes[rows]
    if not len(chosen):
        return ()
    stacks, category = analysis.block_stack[chosen].astype(np.int64), analysis.block_category[chosen]
    if analysis.exact is not None:
        made = (stacks < 0) & np.isin(category, _MADE)
        stacks[made] = -2 - analysis.block_label[chosen][made]
    keys = stacks * len(CATEGORIES) + category
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    result = [_holder(analysis, chosen[piece], sizes[piece]) for piece in np.split(order, cuts)]
    return tuple(sorted(result, key=lambda holder: -holder.bytes))


def phases_of(analysis: Analysis) -> Mapping[Phase, int]:
    """Bytes alive at the moment by the phase in which they were allocated."""
    rows, sizes = analysis.alive, analysis.alive_bytes
    born = analysis.lifetimes.born[rows]
    phase = np.full(len(rows), _PHASES.index(Phase.UNKNOWN), np.int8)
    inside = born >= 0
    phase[inside] = analysis.event_phase[born[inside]]
    counts = {number: int(sizes[phase == number].sum()) for number in np.unique(phase).tolist()}
    return {_PHASES[number]: total for number, total in sorted(counts.items(), key=lambda one: -one[1])}


def born_in(analysis: Analysis) -> Mapping[int, int]:
    """Bytes alive at the moment by the training step in which they were allocated, ascending; -1 is before step 0
    (or before the trace). Empty where no steps are known."""
    if not analysis.steps.first_positions:
        return {}
    rows, sizes = analysis.alive, analysis.alive_bytes
    steps = analysis.block_step[rows]
    sums = np.zeros(int(steps.max(initial=-1)) + 2, np.int64)
    np.add.at(sums, steps + 1, sizes)
    return {step - 1: size for step, size in enumerate(sums.tolist()) if size}


def pools_of(layout: Sequence[SegmentState]) -> tuple[PoolUse, ...]:
    """The allocator's free lists in a layout, largest reserved first."""
    found: dict[tuple[tuple[int, int], int, bool], list[int]] = {}
    expandable: set[tuple[tuple[int, int], int, bool]] = set()
    for segment in layout:
        key = (segment.pool, segment.stream, segment.small)
        use = found.setdefault(key, [0, 0, 0, 0, 0])
        use[0] += 1
        use[1] += segment.size
        use[2] += sum(block.size for block in segment.blocks if block.state != INACTIVE)
        if segment.expandable:
            expandable.add(key)
    for hole in holes(layout):
        use = found[hole.pool, hole.stream, hole.small]
        use[3] = max(use[3], hole.size)
        use[4] += 1
    result = [
        PoolUse(pool, stream, small, (pool, stream, small) in expandable, *use)
        for (pool, stream, small), use in found.items()
    ]
    return tuple(sorted(result, key=lambda pool: -pool.reserved_bytes))


def _holder(
    analysis: Analysis, rows: np.typing.NDArray[np.intp], sizes: np.typing.NDArray[np.int64]
) -> Holder:
    stack = int(analysis.block_stack[rows[0]])
    frames = analysis.frames(stack)
    born = analysis.lifetimes.born[rows]
    steps = analysis.block_step[rows]
    steps = steps[steps >= 0]
    phase = Phase.UNKNOWN
    if (born >= 0).any():
        phase = _PHASES[_heaviest(analysis.event_phase[born[born >= 0]], sizes[born >= 0])]
    return Holder(
        frames=frames,
        place=place_of(frames),
        bytes=int(sizes.sum()),
        blocks=len(rows),
        largest_bytes=int(sizes.max()),
        category=CATEGORIES[int(analysis.block_category[rows[0]])],
        how=_HOWS[_heaviest(analysis.block_how[rows], sizes)],
        certainty=_weakest(analysis.block_certainty[rows], sizes),
        phase=phase,
        first_step=int(steps.min()) if len(steps) else None,
        last_step=int(steps.max()) if len(steps) else None,
        label=shared_label(analysis.labels_of(rows)),
    )


def _heaviest(values: np.typing.NDArray[np.int8], weights: np.typing.NDArray[np.int64]) -> int:
    """The value that stands for most bytes."""
    sums: dict[int, int] = {
        value: int(weights[values == value].sum()) for value in np.unique(values).tolist()
    }
    return max(sums, key=lambda value: sums[value])


def _weakest(values: np.typing.NDArray[np.int8], weights: np.typing.NDArray[np.int64]) -> Certainty:
    """The weakest certainty that stands for a part of the bytes that counts."""
    total = max(1, int(weights.sum()))
    present = [
        value
        for value in np.unique(values).tolist()
        if int(weights[values == value].sum()) >= _COUNTS * total
    ]
    return _CERTAINTIES[max(present, default=len(_CERTAINTIES) - 1)]
