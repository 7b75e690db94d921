"""Copies of parameters in half precision, which autocast makes and keeps until its region ends.

A weight of 4 bytes per element is cast once per region; the copy has half its size and stays for every later use
(aten/src/ATen/autocast_mode.cpp caches casts of leaves that require gradients, also below no_grad). By its life alone
it is an activation, but a smaller batch does not make it smaller. Arguments that are no weights are cast too: where
more copies of a size are there than weights of twice that size, which are which is open.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.categories_columns import Columns
from oomph.diagnose.snapshot.categories_forward import SOON
from oomph.diagnose.snapshot.categories_runs import Runs
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import Category
from oomph.memory.lifetimes import Lifetimes

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


def copies_of_parameters(lives: Lifetimes, cast: Mask, lived: Ints, runs: Runs, columns: Columns) -> None:
    """Makes the copies of parameters among the lasting blocks that autocast made (`cast`) parameters too. `lived`: how
    many requests came while each block was there."""
    if not cast.any():
        return
    casts = cast & (lives.born >= 0)
    lasts = columns.is_(Category.ACTIVATIONS) | (lived > SOON)
    # Those of the last layers live as short as what inference drops at once; they go with the others.
    kept = np.isin(runs.born, np.unique(runs.born[casts & lasts]))
    copies = casts & (lasts | (runs.behind & kept))
    if not copies.any():
        return
    stays = (lives.born < 0) & (lives.freed >= lives.events)
    sources = stays | columns.is_(Category.PARAMETERS)
    sizes = np.unique(lives.requested_bytes[copies])
    for size in sizes[np.isin(2 * sizes, np.unique(lives.requested_bytes[sources]))].tolist():
        mine = np.flatnonzero(copies & (lives.requested_bytes == size))
        of_twice = np.flatnonzero(sources & (lives.requested_bytes == 2 * size))
        _of_size(mine, of_twice, lives, runs, columns)


def _of_size(
    mine: NDArray[np.intp], sources: NDArray[np.intp], lives: Lifetimes, runs: Runs, columns: Columns
) -> None:
    """Copies of one size (`mine`, in the order of birth), and the blocks that they can be copies of."""
    begins = lives.born[mine]
    there = _alive(lives.born[sources], lives.freed[sources], begins)
    copies = _alive(begins, lives.freed[mine], begins)
    run, index = np.unique(runs.born[mine], return_inverse=True)
    too_many = np.zeros(len(run), bool)
    np.logical_or.at(too_many, index, copies > there)
    chosen, surely = copies <= there, ~too_many[index]
    columns.set(mine[chosen & surely], Category.PARAMETERS, How.SIZE, Certainty.LIKELY)
    columns.set(mine[chosen & ~surely], Category.PARAMETERS, How.SIZE, Certainty.POSSIBLE)
    columns.certainty[mine[~chosen]] = tuple(Certainty).index(Certainty.POSSIBLE)


def _alive(born: Ints, freed: Ints, moments: Ints) -> Ints:
    """How many of these blocks are there just after each moment."""
    begun = np.searchsorted(np.sort(born), moments, "right")
    return (begun - np.searchsorted(np.sort(freed), moments, "right")).astype(np.int64)
