"""How reductions are launched: the arithmetic is in `oomph.memory.kernels`, for recipes too."""

from __future__ import annotations

from oomph.memory.kernels.reduce_launch import Kernel as Kernel
from oomph.memory.kernels.reduce_launch import Scratch as Scratch
from oomph.memory.kernels.reduce_launch import _input_vector as _input_vector
from oomph.memory.kernels.reduce_launch import scratch as scratch
