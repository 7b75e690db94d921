"""Recorded sequences, and bytes per token written out."""

from __future__ import annotations

import pytest
import torch

from tests.tracing.kernels.calls import A100, H100, aten, call, peak, steps, taken, tensor

FLASH = aten._scaled_dot_product_flash_attention.default
FLASH_BACKWARD = aten._scaled_dot_product_flash_attention_backward.default
EFFICIENT = aten._scaled_dot_product_efficient_attention.default
EFFICIENT_BACKWARD = aten._scaled_dot_product_efficient_attention_backward.default
CUDNN = aten._scaled_dot_product_cudnn_attention.default


def heads(batch, count, rows, size, dtype=torch.bfloat16):
    """As models have them: (batch, rows, heads, size) in memory, seen as (batch, heads, rows, size)."""
    return tensor(batch, count, rows, size, dtype=dtype, strides=(rows * count * size, size, count * size, 1))


def _flash(batch, count, rows, size, keys=None, key_heads=None, dropout=0.0, version=(2, 13), gpu=A100):
    query = heads(batch, count, rows, size)
    key = heads(batch, key_heads or count, keys or rows, size)
    return call(FLASH, query, key, key, dropout, True, torch=version, gpu=gpu)


def test_the_generators_state_is_on_the_gpu_from_torch_2_7_on():
    assert steps("sdpa_flash", 9, _flash(8, 32, 2048, 128))[:4] == [
        ("out", 0),
        ("out", 1),
        ("out", 6),
        ("out", 7),
    ]
    from oomph.tracing.kernels.rule import Output
    from tests.tracing.kernels.calls import RULES

    effect = RULES["sdpa_flash"].effect(_flash(8, 32, 2048, 128, version=(2, 6)))
    assert effect is not None
    assert effect.steps[-2:] == (Output(6, bytes=0), Output(7, bytes=0))


def test_few_heads_split_the_keys():
    # One query row, 8 heads, 4096 keys of 128: 32 column blocks, 8 blocks of work for 2 x 108 processors. 8 * s / 216
    # waves: up to 27 splits are less than one wave, so more is better; of those that change the blocks per part
    # (1-8, 11, 16, 32) 32 is 256 / 216 of 2 waves: 0.593 of the best, 16 splits: 128 / 216 = 0.593. The best is
    # 0.593, within 15 % of it is first 16: 0.593 (11: 0.407).
    assert taken("sdpa_flash", _flash(1, 8, 1, 128, keys=4096)) == [16 * 8 * 4, 16 * 8 * 128 * 4]
    assert taken("sdpa_flash", _flash(1, 8, 1, 128, keys=4096, dropout=0.1)) == []
    assert taken("sdpa_flash", _flash(8, 32, 2048, 128)) == []  # 8192 blocks are enough


def test_one_row_of_grouped_heads_counts_as_a_row_per_query_head():
    # 32 heads on 8: 4 rows for 8 heads, and the same 16 splits.
    sizes = taken("sdpa_flash", _flash(1, 32, 1, 128, keys=4096, key_heads=8))
    assert sizes == [16 * 8 * 4 * 4, 16 * 8 * 4 * 128 * 4]


def _flash_backward(count=32, key_heads=8, rows=2048, size=128, batch=2):
    query, key = heads(batch, count, rows, size), heads(batch, key_heads, rows, size)
    return call(
        FLASH_BACKWARD, query, query, key, key, query, None, None, None, rows, rows, 0.0, True, None, None
    )


def test_flash_backward_per_token():
    # Llama-3-8B's heads: for each of 4096 tokens 32 heads of 128: the query's gradient in float32 16,384 bytes, a
    # number per head 128 bytes, and gradients of keys and values for 32 heads instead of 8: 2 x 8192 bytes in bfloat16.
    sizes = taken("sdpa_flash_backward", _flash_backward())
    assert sizes == [4096 * 128, 4096 * 16_384, 4096 * 8192, 4096 * 8192]
    assert taken("sdpa_flash_backward", _flash_backward(key_heads=32)) == sizes[:2]


def test_flash_backward_rounds_rows_and_heads_up():
    # 1000 rows count as 1024, heads of 72 as 96.
    sizes = taken("sdpa_flash_backward", _flash_backward(8, 8, 1000, 72, 1))
    assert sizes == [8 * 1024 * 4, 1024 * 8 * 96 * 4]
    assert taken("sdpa_flash_backward", _flash_backward(8, 8, 128, 200, 1))[1] == 128 * 8 * 256 * 4


def test_a_strided_gradient_is_copied_first():
    query = heads(2, 8, 128, 64)
    grad = tensor(2, 8, 128, 64, dtype=torch.bfloat16)
    what = call(
        FLASH_BACKWARD, grad, query, query, query, query, None, None, None, 128, 128, 0.0, True, None, None
    )
    assert steps("sdpa_flash_backward", 3, what)[:4] == [
        ("take", 2 * 8 * 128 * 64 * 2),
        ("out", 0),
        ("out", 1),
        ("out", 2),
    ]


def test_without_the_rule_the_float32_gradient_is_missing():
    what = _flash_backward()
    gradients = [4096 * 8192, 4096 * 2048, 4096 * 2048]
    assert peak([what], gradients, without="sdpa_flash_backward") == 4096 * 12_288
    assert peak([what], gradients) == 4096 * (12_288 + 128 + 16_384 + 16_384)


def test_efficient_forward_as_recorded_with_torch_2_1():
    # Recorded: 8,192,000 and 131,072 bytes (32 heads in all, 1000 rows, as 1024, of 64 in float32), nothing else.
    query = heads(2, 16, 1000, 64, torch.float32)
    assert steps("sdpa_efficient", 4, call(EFFICIENT, query, query, query, None, True)) == [
        ("out", 0),
        ("out", 1),
        ("out", 2),
        ("out", 3),
    ]


def test_wide_heads_are_summed_in_float32():
    query = heads(2, 16, 100, 256)
    assert taken("sdpa_efficient", call(EFFICIENT, query, query, query, None, True)) == [
        2 * 16 * 100 * 256 * 4
    ]
    assert taken("sdpa_efficient", call(EFFICIENT, *[heads(2, 16, 100, 128)] * 3, None, True)) == []


def _efficient_backward(batch, count, rows, size, dtype, gpu=A100):
    query = heads(batch, count, rows, size, dtype)
    mask = [True, True, True, False]
    return call(
        EFFICIENT_BACKWARD, query, query, query, query, None, query, None, None, None, 0.0, mask, gpu=gpu
    )


def test_efficient_backward_as_recorded_with_torch_2_1():
    # Recorded: three gradients of 8,192,000; the product 8,192,000, its sums 128,000, those once more in another
    # order, both first gone; then 8,396,800.
    what = _efficient_backward(2, 16, 1000, 64, torch.float32)
    assert steps("sdpa_efficient_backward", 4, what) == [
        ("out", 0),
        ("out", 1),
        ("out", 2),
        ("out", 3),
        ("take", 8_192_000),
        ("take", 128_000),
        ("take", 128_000),
        ("give", 5),
        ("give", 4),
        ("take", 8_396_800),
        ("give", 6),
        ("give", 9),
    ]


def test_half_precision_computes_its_row_sums_in_the_kernel():
    # Tiles of 128 x 128 with 16 bytes of locks each: 8 of them for 1000 rows of 128.
    sizes = taken("sdpa_efficient_backward", _efficient_backward(2, 16, 1000, 128, torch.bfloat16))
    assert sizes == [128_000, 32 * 8 * (128 * 128 + 4) * 4]


def test_a_head_that_no_tile_holds_has_sums_for_keys_and_values():
    # Heads of 256 in tiles of 128 x 64: 8 x 4 tiles for the query; keys in min(16, 200 / 32 = 6) parts, each with 64
    # rows of 256 for keys and for values.
    sizes = taken("sdpa_efficient_backward", _efficient_backward(2, 16, 1000, 256, torch.bfloat16))
    assert sizes[-1] == 32 * 4 * (8 * 4 * (128 * 64 + 4) + 6 * 64 * 2 * 256)


@pytest.mark.parametrize("saved", [True, False])
def test_cudnn_is_a_doubt(saved):
    from tests.tracing.kernels.calls import RULES

    query = heads(2, 8, 128, 64)
    effect = RULES["sdpa_cudnn"].effect(call(CUDNN, query, query, query, None, saved, gpu=H100))
    assert effect is not None
    assert effect.uncertain_bytes == 2 * 8 * 128 * 64 * 2
    assert [getattr(step, "bytes", None) for step in effect.steps] == [None, None if saved else 0, 0, 0]
