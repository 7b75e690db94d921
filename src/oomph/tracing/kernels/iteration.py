"""How a reduction walks its dimensions: the arithmetic is in `oomph.memory.kernels`, for recipes too."""

from __future__ import annotations

from oomph.memory.kernels.iteration import Iteration as Iteration
from oomph.memory.kernels.iteration import reduction as reduction
