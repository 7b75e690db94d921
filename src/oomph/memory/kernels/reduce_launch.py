"""How many thread blocks share one result of a reduction, and the scratch memory that this takes.

Source: aten/src/ATen/native/cuda/Reduce.cuh, `setReduceConfig`, `ReduceConfig::global_memory_size` and
`semaphore_size`, `gpu_reduce_kernel`; the header as shipped with torch 2.4 to 2.14.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.memory.kernels.arithmetic import Processors, div_up
from oomph.memory.kernels.iteration import Iteration

_WARP = 32
_FEWEST_VALUES_PER_THREAD = 16
_MOST_VALUES_PER_THREAD = 256


@dataclass(frozen=True)
class Scratch:
    """What one kernel launch allocates: partial results, then a counter per block column."""

    buffer_bytes: int
    semaphore_bytes: int


@dataclass(frozen=True)
class Kernel:
    """A reduction kernel: the sizes of an input element and of what is accumulated (`arg_t`), and how many values
    one thread loads at a time (`vt0`)."""

    itemsize: int
    accumulated: int
    vt0: int = 4
    most_threads: int = 512


def scratch(iteration: Iteration, kernel: Kernel, gpu: Processors, torch: tuple[int, int]) -> Scratch | None:
    """The scratch memory of one launch over an iteration that fits 32 bits; None: blocks do not share results."""
    outputs = iteration.num_outputs
    inputs = iteration.numel // outputs
    if inputs < _MOST_VALUES_PER_THREAD:
        return None
    strides, reduced = iteration.strides[-1], iteration.num_reduce_dims
    fastest = reduced == len(strides) or strides[0] < strides[reduced]
    if fastest:
        wide, high, stride = inputs, outputs, strides[0]
    else:
        wide, high, stride = outputs, inputs, strides[reduced]
    vector = 1
    if stride == kernel.itemsize:
        if fastest:
            wide //= _input_vector(wide, reduced, kernel, torch)
        else:
            vector = _output_vector(iteration, kernel.itemsize)
            wide //= vector
    width, height = _block(wide, high, kernel.most_threads // vector)
    step_in, step_out = (width, 1) if fastest else (1, width)
    across_warps = div_up(inputs, step_in) >= min(height * 16, _MOST_VALUES_PER_THREAD)
    if not across_warps:
        return None
    step_in *= height
    values = div_up(inputs, step_in)
    grid = div_up(outputs // vector, step_out)
    target = gpu.multiprocessors * (gpu.threads_per_multiprocessor // (width * height))
    if values < _MOST_VALUES_PER_THREAD or grid > target:
        return None
    blocks = max(
        min(div_up(target, grid), div_up(values, _FEWEST_VALUES_PER_THREAD)),
        div_up(values, _MOST_VALUES_PER_THREAD),
    )
    if blocks <= 1:
        return None
    size = kernel.accumulated * outputs * blocks * (1 if fastest else width * vector)
    return Scratch(size, 4 * grid)


def _input_vector(wide: int, reduced: int, kernel: Kernel, torch: tuple[int, int]) -> int:
    """By what the width is divided because a thread loads several inputs at once; the rule changed in 2.7 and 2.10."""
    long_enough = wide >= 128 if torch >= (2, 10) else wide > 128
    if not long_enough or reduced != 1:
        return 1
    if torch < (2, 7):
        return 4 if kernel.vt0 >= 4 else 1
    return kernel.vt0


def _output_vector(iteration: Iteration, itemsize: int) -> int:
    """How many results one thread makes at once: 4, 2 or 1, whatever divides the begin, the size and the strides."""
    first = iteration.num_reduce_dims
    numbers = [iteration.offset, iteration.shape[first]]
    numbers += [stride // itemsize for dim, stride in enumerate(iteration.strides[-1]) if dim != first]
    vector = 4
    for number in numbers:
        while number % vector:
            vector //= 2
    return vector


def _block(wide: int, high: int, most: int) -> tuple[int, int]:
    """Width and height of a thread block: powers of two, at most `most` threads in all."""
    wide = _last_power(wide) if wide < most else most
    high = _last_power(high) if high < most else most
    width = min(wide, _WARP)
    height = min(high, most // width)
    return min(wide, most // height), height


def _last_power(value: int) -> int:
    return 1 << (max(value, 1).bit_length() - 1)
