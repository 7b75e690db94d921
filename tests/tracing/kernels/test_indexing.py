"""Recorded sequences (allocations whose stacks name `_index_put_impl_` and `radix_sort_pairs`), and arithmetic."""

from __future__ import annotations

import torch

from oomph.tracing.kernels import cub
from tests.tracing.kernels.calls import A100, aten, call, peak, steps, taken, tensor


def test_the_gradient_of_a_lookup_as_recorded_with_torch_2_7():
    # 512 indices into [10000, 2560], a strided value: the order of a recorded training step.
    index, value = tensor(4, 128, dtype=torch.int64), tensor(4, 128, 2560, strides=(128, 1, 512))
    what = call(aten._index_put_impl_.default, tensor(10_000, 2560), [index], value, True, True, torch=(2, 7))
    assert steps("index_put", 0, what) == [
        ("take", 4096),
        ("take", 4096),
        ("give", 0),
        ("take", 5_242_880),
        ("take", 4096),
        ("take", 4096),
        ("take", 4096),
        ("take", 1),
        ("give", 7),
        ("give", 6),
        ("give", 5),
        ("give", 4),
        ("give", 3),
        ("give", 1),
    ]


def test_an_index_on_the_cpu_is_scaled_there_as_recorded():
    # logits[arange(512), targets]: the arange comes over as one array, the targets take two, of which one goes at once.
    indices = [torch.arange(512), tensor(512, dtype=torch.int64)]
    what = call(aten._index_put_impl_.default, tensor(512, 10_000), indices, tensor(512), True, True)
    assert steps("index_put", 0, what)[:5] == [
        ("take", 4096),
        ("take", 4096),
        ("take", 4096),
        ("give", 1),
        ("give", 2),
    ]


def test_writing_without_adding_sorts_nothing():
    assert (
        taken(
            "index_put", call(aten.index_put_.default, tensor(9), [tensor(3, dtype=torch.int64)], tensor(3))
        )
        == []
    )


def test_a_mask_is_a_doubt():
    from tests.tracing.kernels.calls import RULES

    mask = tensor(100, dtype=torch.bool)
    effect = RULES["index_put"].effect(call(aten.index_put_.default, tensor(100), [mask], tensor(1), True))
    assert effect is not None
    assert effect.uncertain_bytes == 4000


def test_sorting_4096_indices_of_a_vocabulary_took_72191_bytes():
    # Recorded: 14 bits are two passes. Digit counts 2 x 256 x 8, two tiles of 3840 with 256 x 4 each, keys and values
    # of 8 bytes once more, two counters (256 when rounded), and 255 to align.
    assert cub.sort_pairs(4096, 8, 8, cub.bits_of(9_999)) == 4096 + 2048 + 2 * 32_768 + 256 + 255 == 72_191
    assert cub.sort_pairs(2048, 8, 8, 14) == 1  # recorded


def test_other_storage_as_recorded():
    assert cub.scan(10, 8) == 1023
    assert cub.select(200) == 767
    assert cub.reduce(32_555, A100) == 17_663
    assert cub.reduce(1578, A100) == 1


def _embedding(count, version=(2, 10), dtype=torch.float32, rows=32_000, columns=4096, **kwargs):
    grad, indices = tensor(count, columns, dtype=dtype), tensor(count, dtype=torch.int64)
    return call(
        aten.embedding_dense_backward.default, grad, indices, rows, -1, False, torch=version, **kwargs
    )


def test_up_to_3072_indices_need_nothing():
    assert taken("embedding_backward", _embedding(3072)) == []


def test_more_are_summed_in_float32_row_by_row():
    # 16,384 tokens of 4096: room for 1638 + 16,384 rows of float32, 281.6 MiB, whatever the gradient's dtype.
    sizes = taken("embedding_backward", _embedding(16_384, dtype=torch.bfloat16))
    assert sizes[:3] == [131_072] * 3
    assert sizes[-1] == (1638 + 16_384) * 4096 * 4 == 295_272_448
    assert len(taken("embedding_backward", _embedding(3073))) == 13


def test_few_rows_are_summed_in_one_pass_from_torch_2_11_on():
    # 100 rows of 64 are 100 blocks, fewer than 4 x 108; 10,000 / 10 + 100 parts are more than 4 x 100.
    few = {"rows": 100, "columns": 64, "dtype": torch.bfloat16}
    assert taken("embedding_backward", _embedding(10_000, **few))[-1] == 1100 * 64 * 4
    assert taken("embedding_backward", _embedding(10_000, (2, 11), **few))[-2:] == [8 * 1100, 100 * 64 * 4]


def test_without_the_rule_the_sums_are_missing():
    what, result = _embedding(16_384), 32_000 * 4096 * 4
    assert peak([what], [result], without="embedding_backward") == result
    assert peak([what], [result]) - result > 295_272_448


def test_deterministic_algorithms_sort_what_is_written_too():
    what = call(aten.index_put_.default, tensor(9), [tensor(3, dtype=torch.int64)], tensor(3))
    torch.use_deterministic_algorithms(True)
    try:
        assert taken("index_put", what) == [24, 24, 24, 24, 24, 1]
    finally:
        torch.use_deterministic_algorithms(False)
