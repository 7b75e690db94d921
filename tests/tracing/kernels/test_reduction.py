"""Expected sizes were read from recorded runs (allocations that `gpu_reduce_kernel` made), or are written out."""

from __future__ import annotations

import pytest
import torch

from tests.tracing.kernels.calls import A100, H100, aten, call, steps, taken, tensor


def test_blocks_share_the_sum_over_rows_as_recorded():
    # Recorded with torch 2.10: the sum of a weight gradient [4, 512, 1024] took 16,777,216 bytes, then 32.
    what = call(aten.sum.dim_IntList, tensor(4, 512, 1024), [0, 1], True, torch=(2, 10))
    assert steps("reduction", 1, what) == [
        ("out", 0),
        ("take", 16_777_216),
        ("take", 32),
        ("give", 2),
        ("give", 1),
    ]


@pytest.mark.parametrize(
    ("op", "rows", "width", "expected"),
    [
        # Recorded with torch 2.7 on an H100 over column-major inputs of 512 rows.
        (aten.sum.dim_IntList, 512, 2560, [10_485_760, 16]),
        (aten.sum.dim_IntList, 512, 10_000, [41_156_608, 16]),
        (aten.max.dim, 512, 10_000, [164_626_432, 16]),
    ],
)
def test_strided_rows_as_recorded(op, rows, width, expected):
    given = tensor(4, rows // 4, width, strides=(rows // 4, 1, rows))
    dim = -1 if op is aten.max.dim else [-1]
    assert taken("reduction", call(op, given, dim, True, gpu=H100, torch=(2, 7))) == expected


def test_the_whole_of_a_large_tensor_depends_on_the_gpu():
    # 2**29 floats, blocks of 512 threads (32 wide, 16 high: dim0 = 2**29 / 4 gives 32 lanes, dim1 = 1 gives height 1,
    # then width grows to 512). Each thread has 2**29 / 512 = 2**20 values; 2048 / 512 = 4 blocks run on each of 108
    # multiprocessors: 432 blocks at most by the GPU, 2**20 / 16 by the work, but at least 2**20 / 256 = 4096.
    what = call(aten.sum.default, tensor(2**29))
    assert taken("reduction", what) == [4 * 4096, 4]


def test_a_small_tensor_needs_no_scratch():
    assert taken("reduction", call(aten.sum.default, tensor(1000))) == []
    assert taken("reduction", call(aten.sum.dim_IntList, tensor(4, 100, 768), [-1], True)) == []


def test_multiprocessors_count():
    # 2**20 floats: width 512, 2**11 values per thread: min(ceil(4 * SMs / 1), 2**11 / 16 = 128), at least 8.
    few = A100.__class__("T4", (7, 5), 10, 1024, 2**34)
    assert taken("reduction", call(aten.sum.default, tensor(2**20), gpu=A100)) == [4 * 128, 4]
    assert taken("reduction", call(aten.sum.default, tensor(2**20), gpu=few)) == [4 * 20, 4]


def test_bool_is_copied_to_int64_before_it_is_summed():
    what = call(aten.sum.default, tensor(100, dtype=torch.bool))
    assert steps("reduction", 1, what) == [("out", 0), ("take", 800), ("give", 1)]
    assert taken("reduction", call(aten.sum.default, tensor(100, dtype=torch.int64))) == []
    half = tensor(100, dtype=torch.float16)
    assert taken("reduction", call(aten.sum.default, half, dtype=torch.float32)) == []
    assert taken("reduction", call(aten.sum.default, half, dtype=torch.float64)) == [800]


def test_the_largest_of_a_strided_tensor_is_looked_for_in_a_copy():
    assert taken("reduction", call(aten.max.default, tensor(10, 10, strides=(1, 10)))) == [400]
    assert taken("reduction", call(aten.max.default, tensor(10, 10))) == []


def test_what_32_bits_cannot_count_runs_in_parts():
    # [131072, 16384] in bfloat16 is 4 GiB: two halves of 65,536 rows, each summed over its rows. A bfloat16 result
    # cannot hold what the halves have so far: an accumulator of 16,384 floats comes first and stays.
    given = tensor(131_072, 16_384, dtype=torch.bfloat16)
    sizes = taken("reduction", call(aten.sum.dim_IntList, given, [0]))
    assert sizes[0] == 4 * 16_384
    # Each half: 4 results per thread, 4096 columns of threads, blocks 32 x 4 (512 / 4 threads), 65,536 rows over 4:
    # 16,384 values per thread. 128 blocks across; 108 * 16 wanted: ceil(1728 / 128) = 14, at least 16384 / 256 = 64.
    assert sizes[1:] == [4 * 16_384 * 64 * 32 * 4, 4 * 128] * 2


@pytest.mark.parametrize(("version", "expected"), [((2, 6), 0), ((2, 9), 0), ((2, 10), 1)])
def test_128_values_are_loaded_four_at_a_time_from_torch_2_10_on(version, expected):
    from oomph.tracing.kernels.reduce_launch import Kernel, _input_vector

    assert _input_vector(128, 1, Kernel(4, 4), version) == (4 if expected else 1)
    assert _input_vector(129, 1, Kernel(4, 4), version) == 4
    assert _input_vector(129, 1, Kernel(4, 16, vt0=2), version) == (1 if version < (2, 7) else 2)


def test_moments_hold_four_numbers():
    # As the sum of 2**20 floats, but two at a time: width 512, and 16 bytes for each of 128 blocks.
    assert taken("reduction", call(aten.var.correction, tensor(2**20), None)) == [16 * 128, 4]
