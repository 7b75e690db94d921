"""Temporary storage of CUB: the arithmetic is in `oomph.memory.kernels`, for recipes too."""

from __future__ import annotations

from oomph.memory.kernels.cub import bits_of as bits_of
from oomph.memory.kernels.cub import reduce as reduce
from oomph.memory.kernels.cub import scan as scan
from oomph.memory.kernels.cub import select as select
from oomph.memory.kernels.cub import sort_pairs as sort_pairs
