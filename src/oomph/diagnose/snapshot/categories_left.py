"""Blocks that neither frames nor lives decide: what was alike in earlier steps, and sizes that say something."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.lifetimes import Lifetimes

Mask = NDArray[np.bool_]

#: Bytes of a cuBLAS handle's workspace (ATen/cuda/CublasHandlePool.cpp): 2 x 4096 KiB + 8 x 16 KiB before Hopper.
WORKSPACE_BYTES = 2 * 4096 * 1024 + 8 * 16 * 1024
#: 32 MiB on Hopper and later; tensors have this size too.
HOPPER_WORKSPACE_BYTES = 32 * 1024 * 1024
#: One workspace per thread and stream that multiplies: more blocks of the size are something else.
_MOST_WORKSPACES = 4
_LIFETIME = tuple(How).index(How.LIFETIME)
#: Of earlier blocks so many are asked, the last ones: many steps, and no longer trace costs more.
_MOST_EARLIER = 50_000


def by_earlier_ones(cut: Mask, lives: Lifetimes, stack: NDArray[np.int32], columns: Columns) -> None:
    """A phase that was cut off had not yet freed its temporaries. What the same stack's blocks of the same size were
    in earlier steps, these (`cut`) are too."""
    mine = np.flatnonzero(cut & columns.open & (stack >= 0))
    if not len(mine):
        return
    earlier = np.flatnonzero(~columns.open & np.isin(stack, np.unique(stack[mine])))[-_MOST_EARLIER:]
    votes: dict[tuple[int, int], Counter[int]] = {}
    keys = zip(stack[earlier].tolist(), lives.requested_bytes[earlier].tolist(), strict=True)
    for key, category in zip(keys, columns.category[earlier].tolist(), strict=True):
        votes.setdefault(key, Counter())[category] += 1
    keys = zip(stack[mine].tolist(), lives.requested_bytes[mine].tolist(), strict=True)
    for row, key in zip(mine.tolist(), keys, strict=True):
        if key in votes:
            chosen = CATEGORIES[votes[key].most_common(1)[0][0]]
            surely = Certainty.LIKELY if len(votes[key]) == 1 else Certainty.POSSIBLE
            columns.set(np.array([row]), chosen, How.LIFETIME, surely)


def by_size_in_backward(cut: Mask, fits: Mask, columns: Columns) -> None:
    """Of a backward that was cut off and has none before it: a block of a gradient's size (`fits`) may be one, others
    may be what flows between operators."""
    columns.set(cut & columns.open & fits, Category.GRADIENTS, How.SIZE, Certainty.POSSIBLE)
    columns.set(cut & columns.open, Category.TEMPORARIES, How.LIFETIME, Certainty.POSSIBLE)


def workspaces_by_size(silent: Mask, lives: Lifetimes, stack: NDArray[np.int32], columns: Columns) -> None:
    """Sizes of cuBLAS's workspaces, of blocks that stay and whose stack has no C++ frame that would speak. A handle
    makes its workspace once: a stack with several blocks of the size makes something else."""
    stays = silent & (lives.freed == lives.events) & ~columns.is_(Category.WORKSPACE)
    # What frames name is that, and a model with weights of 32 MiB has gradients and states of them too.
    named = ~columns.open & (columns.how != _LIFETIME)
    for size in (WORKSPACE_BYTES, HOPPER_WORKSPACE_BYTES):
        of_size = lives.requested_bytes == size
        others = of_size & named & ~columns.is_(Category.WORKSPACE)
        made, counts = np.unique(stack[of_size & (stack >= 0)], return_counts=True)
        if int(of_size.sum()) <= _MOST_WORKSPACES and not others.any():
            once = of_size & stays & ~np.isin(stack, made[counts > 1])
            columns.set(once, Category.WORKSPACE, How.SIZE, Certainty.POSSIBLE)
