"""Temporaries of operators that are neither matrix products nor reductions: recorded sizes, or arithmetic."""

from __future__ import annotations

import pytest
import torch

from tests.tracing.kernels.calls import A100, RULES, aten, call, peak, steps, taken, tensor


def doubt(name, what):
    effect = RULES[name].effect(what)
    return 0 if effect is None else effect.uncertain_bytes


def test_dropout_makes_its_mask_first():
    what = call(aten.native_dropout.default, tensor(8), 0.1, True)
    assert steps("native_dropout", 2, what) == [("out", 1), ("out", 0)]


@pytest.mark.parametrize("loss", [torch.nn.functional.mse_loss, torch.nn.functional.smooth_l1_loss])
def test_a_mean_of_losses_is_as_large_as_its_input_as_on_the_cpu(loss):
    from oomph.tracing.kernels.rule import Output

    real = loss(torch.zeros(1000, 10), torch.ones(1000, 10)).untyped_storage().nbytes()
    given = tensor(1000, 10)
    effect = RULES["pointwise_loss"].effect(call(getattr(aten, loss.__name__).default, given, given))
    assert effect is not None
    assert effect.steps[0] == Output(0, bytes=real)
    assert real == 40_000
    # and a temporary of the same size; 10,000 values are few enough for one block each: 512 threads with 20 values.
    assert taken("pointwise_loss", call(getattr(aten, loss.__name__).default, given, given)) == [40_000]


def test_losses_that_are_not_reduced_need_nothing():
    given = tensor(1000)
    assert taken("pointwise_loss", call(aten.mse_loss.default, given, given, 0)) == []
    assert taken("pointwise_loss", call(aten.huber_loss.default, given, given, 0)) == []
    with_logits = aten.binary_cross_entropy_with_logits.default
    assert taken("pointwise_loss", call(with_logits, given, given, None, None, 0)) == [4000]


def test_other_losses_have_temporaries_before_their_scalar():
    given = tensor(1000)
    with_logits = aten.binary_cross_entropy_with_logits.default
    assert steps("pointwise_loss", 1, call(with_logits, given, given))[:3] == [
        ("take", 4000),
        ("take", 4000),
        ("out", 0),
    ]
    assert steps("pointwise_loss", 1, call(aten.huber_loss.default, given, given))[:2] == [
        ("take", 4000),
        ("out", 0),
    ]
    assert peak([call(aten.huber_loss.default, given, given)], [4], without="pointwise_loss") == 4
    assert peak([call(aten.huber_loss.default, given, given)], [4]) == 4004


def test_logsumexp_keeps_the_exponentials():
    # 100 rows: maximum and absolute value 400 bytes each, a boolean per row; then 100 x 50 exponentials.
    assert taken("logsumexp", call(aten.logsumexp.default, tensor(100, 50), [-1])) == [400, 400, 100, 20_000]


def test_softmax_of_a_strided_input_copies_it_after_its_result():
    strided = tensor(10, 20, strides=(1, 10))
    assert steps("contiguous_inputs", 1, call(aten._softmax.default, strided, 1, False))[:2] == [
        ("out", 0),
        ("take", 800),
    ]
    assert taken("contiguous_inputs", call(aten._softmax.default, tensor(10, 20), 1, False)) == []
    what = call(aten.native_layer_norm.default, strided, [20], tensor(20), tensor(20), 1e-5)
    assert steps("contiguous_inputs", 3, what)[:2] == [("take", 800), ("out", 0)]


def test_the_backward_of_resampling_reads_either_format_of_images():
    backward, sizes = aten.upsample_nearest2d_backward.default, ([16, 16], [2, 3, 8, 8])
    last = tensor(2, 3, 16, 16, strides=(768, 1, 48, 3))
    assert taken("contiguous_inputs", call(backward, last, *sizes)) == []
    assert taken(
        "contiguous_inputs", call(backward, tensor(2, 3, 16, 16, strides=(3, 1, 96, 6)), *sizes)
    ) == [6144]


def test_padding_and_pooling_copy_what_is_strided():
    strided = tensor(2, 3, 4, 4, strides=(100, 30, 7, 1))
    backward = aten.reflection_pad2d_backward.default
    assert taken("contiguous_inputs", call(backward, strided, strided, [1, 1, 1, 1])) == [2 * 3 * 16 * 4]
    last = tensor(2, 3, 4, 4, strides=(48, 1, 12, 3))
    assert taken("contiguous_inputs", call(aten._adaptive_avg_pool2d.default, last, [1, 1])) == []
    assert taken("contiguous_inputs", call(aten._adaptive_avg_pool2d.default, strided, [1, 1])) == [384]


def test_reflection_padding_copies_an_image_in_channels_last_format_as_recorded():
    # 330 by 340 with 16 channels: in a run of torch 2.7 the result comes first, then the copy.
    image = tensor(1, 16, 330, 340, strides=(1_795_200, 1, 5_440, 16))
    what = call(aten.reflection_pad2d.default, image, [1, 1, 1, 1], torch=(2, 7))
    assert steps("contiguous_inputs", 1, what) == [("out", 0), ("take", 7_180_800), ("give", 1)]


def _layer_norm(rows, columns, version=(2, 13)):
    rows_by_columns = tensor(rows, columns)
    mean = tensor(rows, 1)
    return call(
        aten.native_layer_norm_backward.default,
        rows_by_columns,
        rows_by_columns,
        [columns],
        mean,
        mean,
        tensor(columns),
        tensor(columns),
        [True] * 3,
        torch=version,
    )


def test_a_layer_norm_of_very_many_rows_sums_its_gradients_in_parts():
    # 131,072 rows of 768: 24 blocks across, 4096 parts of 32 rows but at most 32,768 / 24 = 1365: two arrays.
    assert taken("layer_norm_backward", _layer_norm(131_072, 768)) == [1365 * 768 * 4] * 2
    assert taken("layer_norm_backward", _layer_norm(65_536, 768)) == []
    assert (
        taken("layer_norm_backward", _layer_norm(131_072, 4096)) == []
    )  # 128 blocks across keep 108 processors busy
    assert taken("layer_norm_backward", _layer_norm(131_072, 768, (2, 6))) == []


def test_group_norm_has_factors_per_sample_and_channel():
    # 4 samples of 8 channels in bfloat16: 32 factors of 4 bytes, twice; nothing without weight and bias.
    image = tensor(4, 8, 6, 6, dtype=torch.bfloat16)
    forward = aten.native_group_norm.default
    assert taken("group_norm", call(forward, image, tensor(8), tensor(8), 4, 8, 36, 2, 1e-5)) == [128, 128]
    assert taken("group_norm", call(forward, image, None, None, 4, 8, 36, 2, 1e-5)) == []
    backward = aten.native_group_norm_backward.default
    mean = tensor(4, 2)
    tail = (mean, mean, tensor(8), 4, 8, 36, 2, [True, True, True])
    # 2 groups: 8 numbers of 4 bytes per group.
    assert taken("group_norm", call(backward, image, image, *tail)) == [128, 128, 32, 32, 128]
    last = tensor(4, 8, 6, 6, dtype=torch.bfloat16, strides=(288, 1, 48, 8))
    # Channels last: 36 pixels are 6 rows, with two sums each.
    assert taken("group_norm", call(backward, last, last, *tail)) == [128, 128, 128 * 6 * 2, 32, 32, 128]


def test_the_norms_of_a_list_have_a_part_per_65536_elements_of_the_longest():
    tensors = [tensor(65_536 * 3 + 1), tensor(10), tensor(5)]
    assert taken("foreach_norm", call(aten._foreach_norm.Scalar, tensors, 2)) == [3 * 4 * 4]
    halves = [tensor(10, dtype=torch.bfloat16)] * 2
    assert taken("foreach_norm", call(aten._foreach_norm.Scalar, halves, 2)) == [8]


def test_short_rows_are_sorted_in_place():
    assert taken("sort", call(aten.sort.default, tensor(7, 4096))) == [8 * 4096]


def test_long_rows_need_room_for_positions():
    # One row of 100,000 floats: positions; 4 passes of 8 bits over 27 tiles (384 x 10): counts 8192, look-back 27,648,
    # keys 400,128 and positions 800,000 once more (rounded to 256), counters 256, and 255.
    storage = 4 * 256 * 8 + 27 * 1024 + 400_128 + 800_000 + 256 + 255
    assert taken("sort", call(aten.sort.default, tensor(100_000))) == [800_000, storage]
    # Ten rows of 5000: positions twice, sorted keys, and storage for 50,000 pairs and 50,000 row numbers.
    sizes = taken("sort", call(aten.sort.default, tensor(10, 5000)))
    assert sizes[:3] == [400_000, 400_000, 200_000]
    # 200 rows: positions, and keys and positions once more.
    assert taken("sort", call(aten.sort.default, tensor(200, 5000))) == [8_000_000, 12_000_000]


def test_a_sort_along_another_dimension_works_on_copies():
    sizes = taken("sort", call(aten.sort.default, tensor(5000, 200), 0))
    assert sizes == [4_000_000, 4_000_000, 8_000_000, 8_000_000, 12_000_000]


def test_nonzero_as_recorded_with_torch_2_8():
    # 32,555 booleans on an A100: a counter, 17,663 bytes to add them up, the positions, 767 bytes to select them.
    what = call(aten.nonzero.default, tensor(32_555, dtype=torch.bool))
    assert steps("nonzero", 1, what) == [
        ("take", 4),
        ("take", 17_663),
        ("give", 1),
        ("out", 0),
        ("take", 767),
        ("give", 4),
        ("give", 0),
    ]
    assert taken("nonzero", call(aten.nonzero.default, tensor(1578, dtype=torch.bool))) == [4, 1, 767]


def test_indices_become_64_bits_wide_on_the_gpu():
    index = tensor(100, dtype=torch.int32)
    assert taken("masked_indices", call(aten.index.Tensor, tensor(9, 9), [index])) == [800]
    assert taken("masked_indices", call(aten.index.Tensor, tensor(9, 9), [None, torch.arange(100)])) == [800]
    assert (
        taken("masked_indices", call(aten.index.Tensor, tensor(9, 9), [tensor(100, dtype=torch.int64)])) == []
    )


def test_how_much_a_mask_selects_is_a_doubt():
    mask = tensor(10, 10, dtype=torch.bool)
    assert doubt("masked_indices", call(aten.index.Tensor, tensor(10, 10), [mask])) == 1600
    assert doubt("masked_indices", call(aten.masked_select.default, tensor(10, 10), mask)) == 1600


def test_running_sums():
    assert taken("cumsum", call(aten.cumsum.default, tensor(10, dtype=torch.int64), 0)) == [1023]  # recorded
    assert taken("cumsum", call(aten.cumsum.default, tensor(4, 10, dtype=torch.int64), 1)) == []
    assert taken("cumsum", call(aten.cumsum.default, tensor(4, 10, dtype=torch.bool), 1)) == [320]


def test_sampling():
    given = tensor(4, 1000)
    assert steps("multinomial", 1, call(aten.multinomial.default, given, 1))[:2] == [
        ("take", 16_000),
        ("out", 0),
    ]
    several = call(aten.multinomial.default, given, 5, True)
    assert steps("multinomial", 1, several)[:4] == [("out", 0), *[("take", 16_000)] * 3]


def test_whole_tensors_are_compared_element_by_element():
    assert taken("equal", call(aten.equal.default, tensor(100), tensor(100))) == [100, 1]
    assert taken("equal", call(aten.equal.default, tensor(100), tensor(10))) == []


def test_convolutions_bring_their_operands_into_one_format():
    image, weight = tensor(2, 3, 8, 8), tensor(5, 3, 3, 3)
    last = tensor(2, 3, 8, 8, strides=(192, 1, 24, 3))
    tail = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    assert taken("convolution", call(aten.convolution.default, image, weight, *tail)) == []
    assert taken("convolution", call(aten.convolution.default, last, weight, *tail)) == [5 * 27 * 4]
    assert doubt("convolution", call(aten.convolution.default, image, weight, *tail)) == 2 * (1536 + 540)
    pixel = tensor(5, 3, 1, 1)
    assert taken("convolution", call(aten.convolution.default, last, pixel, *tail)) == []


@pytest.mark.parametrize(
    ("name", "what", "least"),
    [
        # 512 bytes of counts per block of about a thousand elements were recorded: 16,384 for 32,555.
        ("topk", call(aten.topk.default, tensor(32_555), 5), 16_384 + 2 * 1279),
        ("unique", call(aten._unique2.default, tensor(1000, dtype=torch.int64)), 5 * 8000),
        ("isin", call(aten.isin.Tensor_Tensor, tensor(1000), tensor(5)), 5000),
        ("randperm", call(aten.randperm.default, 1000), 4 * 8000),
        ("fft", call(aten._fft_r2c.default, tensor(1000), [0], 0, True), 4000),
        ("batch_norm", call(aten.native_batch_norm.default, tensor(2, 3, 4), None, None, None, None), 96),
    ],
)
def test_what_a_library_or_the_data_decide_is_a_doubt(name, what, least):
    effect = RULES[name].effect(what)
    assert effect is not None
    assert effect.steps == ()
    assert effect.uncertain_bytes >= least


def test_the_gpu_is_asked_for_its_multiprocessors_only_where_it_matters():
    assert taken("nonzero", call(aten.nonzero.default, tensor(5000), gpu=A100))[1] == 17_663


def test_what_lies_in_pieces_is_gathered_before_it_leaves_the_gpu():
    pieces = tensor(8, 4, strides=(100, 1))
    to_copy = aten._to_copy.default
    assert taken("copies", call(to_copy, pieces, device=torch.device("cpu"))) == [128]
    assert taken("copies", call(to_copy, tensor(8, 4, strides=(1, 8)), device=torch.device("cpu"))) == []
    assert taken("copies", call(to_copy, pieces, dtype=torch.float64)) == []
    assert taken("copies", call(aten.copy_.default, pieces, torch.zeros(8, 4))) == [128]
    assert taken("copies", call(aten.copy_.default, torch.zeros(8, 4), tensor(8, 4))) == []
    assert taken("copies", call(aten.copy_.default, pieces, tensor(8, 4))) == []
