"""What the gradients of a layer norm's weight and bias take.

Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (ConfigureAndLaunchGammaBetaBackwardKernel: pull request 148605).
"""

from __future__ import annotations

from oomph.memory.kernels.arithmetic import div_up

_MANY_ROWS = 64 * 1024


def partial_bytes(
    rows: int, columns: int, itemsize: int, multiprocessors: int, torch: tuple[int, int]
) -> int:
    """Bytes of the partial gradients of one of the two, 32 rows each; 0 where there are none: up to 65,536 rows, rows
    that are wide for the GPU, and before torch 2.7."""
    if torch < (2, 7) or rows <= _MANY_ROWS or columns // 32 >= multiprocessors // 2:
        return 0
    return min(32 * 1024 // div_up(columns, 32), div_up(rows, 32)) * columns * itemsize
