"""Every rule, taken away: the same call allocates something else then."""

from __future__ import annotations

import pytest
import torch

from oomph.tracing.kernels.apply import Plan, plan
from oomph.tracing.kernels.registry import all_rules
from oomph.tracing.kernels.rule import Call
from tests.tracing.kernels.calls import H100, RULES, aten, call, tensor

_HEADS = tensor(2, 8, 128, 64, dtype=torch.bfloat16, strides=(65_536, 64, 512, 1))
_STRIDED = tensor(8, 8, strides=(100, 2))
_BACKWARD = (_HEADS,) * 5
_MASK = tensor(100, dtype=torch.bool)
_INDEX = tensor(100, dtype=torch.int64)
_MATRIX = tensor(4, 4)
#: One call for each rule that it speaks of, and how many results the call has.
CALLS: dict[str, tuple[Call, int]] = {
    "blas_operands": (call(aten.mm.default, _STRIDED, tensor(8, 8)), 1),
    "contiguous_inputs": (call(aten._softmax.default, _STRIDED, 1, False), 1),
    "convolution": (call(aten.convolution.default, tensor(2, 3, 8, 8), tensor(5, 3, 3, 3)), 1),
    "copies": (call(aten._to_copy.default, _STRIDED, device=torch.device("cpu")), 1),
    "cublas_lt": (call(aten.addmm.default, tensor(8), tensor(8, 8), tensor(8, 8), torch=(2, 8)), 1),
    "cublas_workspace": (call(aten.mm.default, _MATRIX, _MATRIX), 1),
    "cumsum": (call(aten.cumsum.default, _INDEX, 0), 1),
    "topk": (call(aten.topk.default, tensor(100), 5), 2),
    "unique": (call(aten._unique2.default, _INDEX), 3),
    "isin": (call(aten.isin.Tensor_Tensor, _INDEX, _INDEX), 1),
    "randperm": (call(aten.randperm.default, 100), 1),
    "trilinear": (call(aten._trilinear.default, _MATRIX, _MATRIX, _MATRIX, [1], [0], [1], [2]), 1),
    "cdist_forward": (call(aten._cdist_forward.default, _MATRIX, _MATRIX, 1.0, None), 1),
    "pairwise_distance_backward": (
        call(aten._cdist_backward.default, tensor(4, 5), tensor(4, 8), tensor(5, 8), 1.0, tensor(4, 5)),
        1,
    ),
    "euclidean_distance": (call(aten._euclidean_dist.default, tensor(4, 8), tensor(5, 8)), 1),
    "embedding_bag": (call(aten._embedding_bag.default, _MATRIX, _INDEX, _INDEX), 4),
    "embedding_bag_backward": (
        call(
            aten._embedding_bag_dense_backward.default,
            *(tensor(3, 8), _INDEX, _INDEX, _INDEX, _INDEX, 100, False, 0, None),
        ),
        1,
    ),
    "recurrent_cells": (
        call(aten._thnn_fused_lstm_cell.default, tensor(4, 32), tensor(4, 32), tensor(4, 8)),
        3,
    ),
    "cudnn_ctc_loss": (call(aten._cudnn_ctc_loss.default, tensor(4, 4, 4), _INDEX), 2),
    "transformer_layer": (call(aten._transformer_encoder_layer_fwd.default, tensor(2, 4, 8), 8, 2), 1),
    "scatter_reduce": (call(aten.scatter_reduce.two, _MATRIX, 0, _INDEX, _MATRIX, "mean"), 1),
    "soft_margin_loss": (call(aten.soft_margin_loss.default, _MATRIX, _MATRIX), 1),
    "ctc_loss": (call(aten._ctc_loss.default, tensor(4, 4, 4), _INDEX), 2),
    "batch_norm": (call(aten.native_batch_norm.default, tensor(4, 4, 4)), 3),
    "group_norm": (
        call(aten.native_group_norm.default, tensor(4, 8, 4, 4), tensor(8), tensor(8), 4, 8, 16, 2, 1e-5),
        3,
    ),
    "linear_algebra": (call(aten.linalg_inv_ex.default, _MATRIX), 2),
    "fft": (call(aten._fft_c2c.default, _MATRIX), 1),
    "embedding_backward": (
        call(
            aten.embedding_dense_backward.default,
            tensor(4000, 8),
            tensor(4000, dtype=torch.int64),
            100,
            -1,
            False,
        ),
        1,
    ),
    "equal": (call(aten.equal.default, _MATRIX, _MATRIX), 0),
    "foreach_norm": (call(aten._foreach_norm.Scalar, [_MATRIX], 2), 1),
    "index_put": (call(aten.index_put_.default, tensor(9), [_INDEX], tensor(100), True), 0),
    "layer_norm_backward": (
        call(
            aten.native_layer_norm_backward.default,
            tensor(2**17, 8),
            tensor(2**17, 8),
            [8],
            _INDEX,
            _INDEX,
            tensor(8),
        ),
        3,
    ),
    "logsumexp": (call(aten.logsumexp.default, _MATRIX, [1]), 1),
    "masked_indices": (call(aten.masked_select.default, tensor(100), _MASK), 1),
    "multinomial": (call(aten.multinomial.default, _MATRIX, 1), 1),
    "native_dropout": (call(aten.native_dropout.default, _MATRIX, 0.1, True), 2),
    "nonzero": (call(aten.nonzero.default, _MASK), 1),
    "pointwise_loss": (call(aten.mse_loss.default, _MATRIX, _MATRIX), 1),
    "reduction": (call(aten.sum.default, tensor(2**20)), 1),
    "sdpa_cudnn": (
        call(aten._scaled_dot_product_cudnn_attention.default, *_BACKWARD[:3], None, True, gpu=H100),
        9,
    ),
    "sdpa_efficient": (
        call(aten._scaled_dot_product_efficient_attention.default, *_BACKWARD[:3], None, True),
        4,
    ),
    "sdpa_efficient_backward": (
        call(aten._scaled_dot_product_efficient_attention_backward.default, *_BACKWARD[:4], None, _HEADS),
        4,
    ),
    "sdpa_flash": (call(aten._scaled_dot_product_flash_attention.default, *_BACKWARD[:3], torch=(2, 6)), 9),
    "sdpa_flash_backward": (call(aten._scaled_dot_product_flash_attention_backward.default, *_BACKWARD), 3),
    "sort": (call(aten.sort.default, _MATRIX), 2),
}


def _planned(what: Call, results: int, without: str = "") -> Plan:
    rules = all_rules().without(without).by_operator()
    packet = str(what.op).rsplit(".", 1)[0]
    what.memory.clear()
    asked = [*rules.get(packet, ()), *rules.get(str(what.op), ())]
    return plan([effect for rule in asked if (effect := rule.effect(what)) is not None], results)


def test_every_rule_has_a_call():
    assert set(CALLS) == set(RULES)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_without_the_rule_something_else_is_allocated(name):
    what, results = CALLS[name]
    assert _planned(what, results) != _planned(what, results, name)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_plan_gives_back_what_it_takes(name):
    from oomph.tracing.kernels.rule import Give, Output, Take

    what, results = CALLS[name]
    steps = _planned(what, results).steps
    assert sorted(step.name for step in steps if isinstance(step, Take)) == sorted(
        step.name for step in steps if isinstance(step, Give)
    )
    assert sum(isinstance(step, Output) for step in steps) == results


def _empty(value):
    if isinstance(value, torch.Tensor):
        return value.new_empty((0, *value.shape[1:]))
    return [_empty(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", sorted(CALLS))
def test_tensors_without_elements_are_no_accident(name):
    from dataclasses import replace

    what, results = CALLS[name]
    _planned(replace(what, args=tuple(_empty(value) for value in what.args)), results)
