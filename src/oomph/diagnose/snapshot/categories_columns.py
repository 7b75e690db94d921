"""The columns that categorising fills."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import CATEGORIES, Category

_CATEGORY = {category: number for number, category in enumerate(CATEGORIES)}
_HOW = {how: number for number, how in enumerate(How)}
_CERTAINTY = {certainty: number for number, certainty in enumerate(Certainty)}


class Columns:
    """One entry per block; `open` marks the blocks that nothing has decided."""

    def __init__(self, rows: int) -> None:
        self.category = np.full(rows, _CATEGORY[Category.UNKNOWN], np.int8)
        self.how = np.full(rows, _HOW[How.NONE], np.int8)
        self.certainty = np.full(rows, _CERTAINTY[Certainty.POSSIBLE], np.int8)
        self.open = np.ones(rows, bool)

    def set(
        self,
        mask: NDArray[np.bool_] | NDArray[np.intp],
        category: Category,
        how: How,
        certainty: Certainty = Certainty.POSSIBLE,
    ) -> None:
        """Decides the blocks of `mask` (a mask of all rows, or their numbers)."""
        self.category[mask] = _CATEGORY[category]
        self.how[mask] = _HOW[how]
        self.certainty[mask] = _CERTAINTY[certainty]
        self.open[mask] = False

    def weaken(self, mask: NDArray[np.bool_]) -> None:
        """Makes these possible."""
        self.certainty[mask] = _CERTAINTY[Certainty.POSSIBLE]

    def is_(self, category: Category) -> NDArray[np.bool_]:
        """The blocks of a category."""
        those: NDArray[np.bool_] = self.category == _CATEGORY[category]
        return those

    def has(self, rows: NDArray[np.intp], category: Category) -> NDArray[np.bool_]:
        """Which of these rows are of a category."""
        those: NDArray[np.bool_] = self.category[rows] == _CATEGORY[category]
        return those
