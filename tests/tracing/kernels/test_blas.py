"""Expected sizes were read from recorded runs (allocations that `getNewWorkspace` and `gemm_and_bias` made), or are
the documented defaults."""

from __future__ import annotations

import pytest
import torch

from oomph.tracing.kernels.blas import lt_shares, workspace_bytes
from tests.tracing.kernels.calls import A100, B200, H100, aten, call, steps, taken, tensor


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "TORCH_CUBLASLT_UNIFIED_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("gpu", "version", "expected"),
    [
        (A100, (2, 6), 8_519_680),
        (H100, (2, 6), 33_554_432),
        (B200, (2, 11), 8_519_680),
        (B200, (2, 12), 33_554_432),
    ],
)
def test_the_first_product_makes_the_workspace_after_its_result(gpu, version, expected):
    memory: dict = {}
    what = call(aten.mm.default, tensor(8, 4), tensor(4, 8), gpu=gpu, torch=version, memory=memory)
    assert steps("cublas_workspace", 1, what) == [("out", 0), ("keep", expected)]
    assert steps("cublas_workspace", 1, what) == [("out", 0)]


def test_every_thread_and_stream_has_its_own():
    from dataclasses import replace

    memory: dict = {}
    what = call(aten.bmm.default, tensor(2, 8, 4), tensor(2, 4, 8), memory=memory)
    for one in (what, replace(what, thread=2), replace(what, stream=7), replace(what, device=1)):
        assert len(steps("cublas_workspace", 1, one)) == 2
        assert len(steps("cublas_workspace", 1, one)) == 1


def test_an_empty_product_needs_none():
    assert steps("cublas_workspace", 1, call(aten.mm.default, tensor(0, 4), tensor(4, 8))) == [("out", 0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":4096:2:16:8", 8_519_680),
        (":16:8", 131_072),
        (":4096:8", 33_554_432),
        ("nonsense", 8_519_680),
        (":0:0", 0),
    ],
)
def test_the_environment_says_the_size(monkeypatch, text, expected):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", text)
    assert workspace_bytes(A100, (2, 13)) == expected


def _linear(version, memory, bias=None, gpu=H100):
    bias = tensor(100) if bias is None else bias
    return call(
        aten.addmm.default,
        bias,
        tensor(8, 4),
        tensor(4, 100, strides=(1, 4)),
        gpu=gpu,
        torch=version,
        memory=memory,
    )


def test_a_bias_takes_cublaslts_workspace_as_recorded_with_torch_2_4():
    # Result; 1,048,576; cuBLAS's own 33,554,432 that stays; then the 1 MiB is given back. Later calls: only the 1 MiB.
    memory: dict = {}
    first = _linear((2, 4), memory)
    assert steps("cublas_lt", 1, first) == [
        ("out", 0),
        ("take", 1_048_576),
        ("keep", 33_554_432),
        ("give", 1),
    ]
    assert steps("cublas_workspace", 1, first) == [("out", 0)]
    assert steps("cublas_lt", 1, first) == [("out", 0), ("take", 1_048_576), ("give", 1)]


def test_it_is_kept_as_recorded_with_torch_2_9():
    memory: dict = {}
    first = _linear((2, 9), memory, gpu=A100)
    assert steps("cublas_lt", 1, first) == [("out", 0), ("keep", 8_519_680), ("keep", 1_048_576)]
    assert steps("cublas_lt", 1, first) == [("out", 0)]


def test_it_is_cublas_own_from_torch_2_12_on(monkeypatch):
    memory: dict = {}
    assert steps("cublas_lt", 1, _linear((2, 12), memory)) == [("out", 0)]
    assert steps("cublas_workspace", 1, _linear((2, 12), memory)) == [("out", 0), ("keep", 33_554_432)]
    monkeypatch.setenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "0")
    assert not lt_shares((2, 12))
    monkeypatch.setenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "1")
    assert [lt_shares(version) for version in ((2, 7), (2, 8), (2, 12))] == [False, True, True]


@pytest.mark.parametrize(
    "bias", [tensor(8, 100), tensor(1), tensor(100, strides=(2,)), tensor(100, dtype=torch.complex64)]
)
def test_what_is_no_plain_bias_takes_cublas(bias):
    assert taken("cublas_lt", _linear((2, 4), {}, bias)) == []


def test_without_the_rule_the_workspace_of_cublaslt_is_missing():
    from tests.tracing.kernels.calls import peak

    assert peak([_linear((2, 4), {})], [3200]) == 3200 + 1_048_576 + 33_554_432
    assert peak([_linear((2, 4), {})], [3200], without="cublas_lt") == 3200 + 33_554_432
    assert peak([_linear((2, 4), {})], [3200], without=("cublas_lt", "cublas_workspace")) == 3200


def test_a_matrix_that_is_strided_both_ways_is_copied():
    whole, strided = tensor(8, 4), tensor(8, 4, strides=(100, 2))
    for left, right, expected in (
        (whole, tensor(4, 6), []),
        (whole, tensor(4, 6, strides=(1, 4)), []),
        (tensor(8, 4, strides=(100, 1)), tensor(4, 6), []),  # rows of a wider matrix
        (strided, tensor(4, 6), [128]),
        (tensor(8, 4, strides=(0, 1)), tensor(4, 6), [128]),  # an expanded row
        (strided, tensor(4, 6, strides=(2, 90)), [96, 128]),  # the right one first
    ):
        assert taken("blas_operands", call(aten.mm.default, left, right)) == expected


def test_an_expanded_batch_is_read_in_place_but_not_an_expanded_matrix():
    right = tensor(3, 4, 6)
    assert taken("blas_operands", call(aten.bmm.default, tensor(3, 8, 4, strides=(0, 4, 1)), right)) == []
    assert taken("blas_operands", call(aten.bmm.default, tensor(3, 8, 4, strides=(32, 0, 1)), right)) == [384]
    assert taken("blas_operands", call(aten.bmm.default, tensor(3, 8, 4, strides=(1, 12, 3)), right)) == [384]
    assert taken("blas_operands", call(aten.bmm.default, tensor(3, 8, 4, strides=(4, 12, 1)), right)) == []


def test_a_vector_needs_its_matrix_readable():
    assert taken("blas_operands", call(aten.mv.default, tensor(8, 4, strides=(9, 2)), tensor(4))) == [128]
    assert taken("blas_operands", call(aten.mv.default, tensor(8, 4), tensor(4))) == []
