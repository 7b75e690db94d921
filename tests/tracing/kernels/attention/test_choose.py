"""Each case states what sdp_utils.cpp demands, one on either side of every demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.hardware.gpus import Gpu
from oomph.tracing.kernels.attention.choose import Attention, Backend, Switches, choose
from tests.tracing.kernels.calls import A100, B200, H100

T4 = Gpu("T4", (7, 5), 40, 1024, 2**34)
RTX4090 = Gpu("RTX 4090", (8, 9), 128, 1536, 24 * 2**30)
F, E, C, M = Backend.FLASH, Backend.EFFICIENT, Backend.CUDNN, Backend.MATH


def attention(size=64, heads=8, key_heads=None, rows=128, keys=None, dtype="bfloat16", wide=None, **more):
    shapes = (
        (2, heads, rows, size),
        (2, key_heads or heads, keys or rows, size),
        (2, key_heads or heads, keys or rows, wide or size),
    )
    strides = tuple((h * s * d, d, h * d, 1) for _, h, s, d in shapes)
    return Attention(*shapes, strides, (dtype,) * 3, **more)


@pytest.mark.parametrize(
    ("call", "gpu", "expected"),
    [
        (attention(), A100, F),
        (attention(dtype="float16"), A100, F),
        (attention(dtype="float32"), A100, E),
        (attention(dtype="float64"), A100, M),
        (attention(mask=True), A100, E),
        (attention(256), A100, F),
        (attention(264), A100, E),
        (attention(260), A100, M),
        (attention(20), A100, F),  # filled up to 24
        (attention(20, mask=True), A100, M),  # 20 is no multiple of 8
        (attention(20, dtype="float32"), A100, E),  # but of 4
        (attention(wide=128), A100, E),
        (attention(key_heads=2, grouped=True), A100, F),
        (attention(key_heads=2, grouped=True, mask=True), A100, M),
        (attention(key_heads=2), A100, M),
        (attention(key_heads=3, grouped=True), A100, M),
        (attention(keys=64, causal=True), A100, E),
        (attention(keys=64), A100, F),
        (attention(), T4, M),  # no bfloat16 before Ampere
        (attention(dtype="float16"), T4, E),
        (attention(dtype="float32"), T4, E),
        (attention(200, grad=True), RTX4090, E),
        (attention(200), RTX4090, F),
        (attention(200, grad=True), A100, F),
        (attention(256, grad=True), RTX4090, F),
        (attention(256, grad=True, dropout=0.1), RTX4090, E),
    ],
)
def test_what_torch_2_10_takes(call, gpu, expected):
    assert choose(call, gpu, (2, 10)) is expected


@pytest.mark.parametrize(
    ("gpu", "version", "expected"),
    [
        (H100, (2, 10), F),
        (H100, (2, 11), C),
        (B200, (2, 11), C),
        (A100, (2, 13), F),
        (RTX4090, (2, 13), F),
        (B200, (2, 6), M),
        (B200, (2, 7), F),
    ],
)
def test_versions_and_generations(gpu, version, expected):
    assert choose(attention(), gpu, version) is expected


def test_cudnn_has_its_own_demands():
    assert choose(attention(mask=True), H100, (2, 13)) is C
    assert choose(attention(256), H100, (2, 13)) is C
    assert choose(attention(256), B200, (2, 13)) is F
    assert choose(attention(rows=1, keys=64), H100, (2, 13)) is F
    assert choose(attention(20), H100, (2, 13)) is F
    assert choose(attention(dtype="float32"), H100, (2, 13)) is E
    assert choose(attention(), H100, (2, 13), Switches(deterministic=True)) is F


def test_the_script_may_forbid_and_order(monkeypatch):
    assert choose(attention(), A100, (2, 13), Switches(flash=False)) is E
    assert choose(attention(), A100, (2, 13), Switches(flash=False, efficient=False)) is M
    assert choose(attention(), A100, (2, 13), Switches(flash=False, efficient=False, math=False)) is C
    nothing = Switches(flash=False, efficient=False, math=False, cudnn=False)
    assert choose(attention(), A100, (2, 13), nothing) is None
    assert choose(attention(), H100, (2, 13), Switches(order=(E, F))) is E
    monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    assert choose(attention(), H100, (2, 13)) is F


def test_lengths_of_zero_and_strided_heads():
    assert choose(attention(rows=0, keys=4), A100, (2, 13)) is M
    call = attention()
    strided = replace(call, strides=((1, 2, 3, 5), *call.strides[1:]))
    assert choose(strided, A100, (2, 13)) is M
    assert choose(replace(call, query=(2, 128, 64), key=(2, 128, 64), value=(2, 128, 64)), A100, (2, 13)) is M
