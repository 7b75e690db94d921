"""The replacement, on fake CUDA tensors: which operators it runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from oomph.tracing.kernels.attention import sdpa
from oomph.tracing.patching import Patches
from tests.tracing.kernels.calls import A100, H100


class Seen(TorchDispatchMode):
    """The names of the operators that ran."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def fake(*shape, dtype=torch.bfloat16):
    """(batch, rows, heads, size) in memory, seen as (batch, heads, rows, size)."""
    batch, heads, rows, size = shape
    made = torch.empty(batch, rows, heads, size, dtype=dtype, device="cuda")
    return made.transpose(1, 2)


def operators(*args, gpu=A100, version=(2, 13), **kwargs):
    with Seen() as seen:
        result = sdpa.run(gpu, version, *args, **kwargs)
    return result, [name for name in seen.names if name not in ("transpose", "detach", "alias", "device")]


@pytest.fixture(autouse=True)
def _fake_tensors():
    with FakeTensorMode():
        yield


def test_flash_is_one_operator():
    query = fake(2, 8, 128, 64)
    result, names = operators(query, query, query, causal=True)
    assert names == ["_scaled_dot_product_flash_attention"]
    assert result.shape == query.shape
    assert result.stride() == query.stride()


def test_heads_are_filled_up_to_a_multiple_of_8_and_cut_off_again():
    query = fake(2, 8, 128, 20)
    result, names = operators(query, query, query)
    assert names == ["constant_pad_nd"] * 3 + ["_scaled_dot_product_flash_attention", "slice"]
    assert result.shape == query.shape
    assert result.untyped_storage().nbytes() == 2 * 8 * 128 * 24 * 2


def test_a_mask_of_booleans_becomes_numbers_and_is_aligned():
    query = fake(2, 8, 100, 64)
    mask = torch.ones(2, 1, 100, 100, dtype=torch.bool, device="cuda")
    _, names = operators(query, query, query, mask)
    assert names[-4:] == ["constant_pad_nd", "slice", "expand", "_scaled_dot_product_efficient_attention"]
    assert "where" in names
    aligned = torch.ones(2, 1, 128, 128, dtype=torch.bool, device="cuda")
    query = fake(2, 8, 128, 64)
    _, names = operators(query, query, query, aligned)
    assert "constant_pad_nd" not in names


def test_grouped_heads():
    query, key = fake(2, 8, 128, 64), fake(2, 2, 128, 64)
    assert operators(query, key, key, grouped=True)[1] == ["_scaled_dot_product_flash_attention"]
    result, names = operators(query.float(), key.float(), key.float(), grouped=True)
    assert "bmm" in names
    assert result.shape == query.shape


def test_hopper_from_2_11_on_runs_cudnn():
    query = fake(2, 8, 128, 64)
    assert operators(query, query, query, gpu=H100)[1] == ["_scaled_dot_product_cudnn_attention"]
    assert operators(query, query, query, gpu=H100, version=(2, 10))[1] == [
        "_scaled_dot_product_flash_attention"
    ]


def test_what_the_script_allows_is_heard():
    query = fake(2, 8, 128, 64)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert operators(query, query, query)[1] == ["_scaled_dot_product_efficient_attention"]
    with sdpa_kernel(SDPBackend.MATH):
        assert "bmm" in operators(query, query, query)[1]
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert operators(query, query, query)[1] == ["_scaled_dot_product_efficient_attention"]
    double = fake(2, 8, 128, 64, dtype=torch.float64)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        sdpa.run(A100, (2, 13), double, double, double)


def test_autocast_casts_what_comes_in(monkeypatch):
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True)
    query = fake(2, 8, 128, 64, dtype=torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        result, names = operators(query, query, query)
        assert torch.is_autocast_enabled("cuda")
    assert names == ["_to_copy"] * 3 + ["_scaled_dot_product_flash_attention"]
    assert result.dtype is torch.bfloat16


def test_it_stands_where_scripts_call_it_until_the_trace_ends():
    notes: list[str] = []
    settings = SimpleNamespace(gpu=A100, torch=(2, 13))
    recorder = SimpleNamespace(settings=settings, patches=Patches(), note=notes.append)
    original = torch.nn.functional.scaled_dot_product_attention
    sdpa.install(recorder)
    try:
        query = fake(2, 8, 128, 64)
        with Seen() as seen:
            torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        assert "_scaled_dot_product_flash_attention" in seen.names
        assert "flash attention: what PyTorch 2.13 takes" in notes[0]
        cpu = torch.empty(1, 2, 8, 4)
        with Seen() as seen:
            assert torch.nn.functional.scaled_dot_product_attention(cpu, cpu, cpu).device.type == "cpu"
        assert not any("cudnn" in name for name in seen.names)
        query = fake(2, 8, 4, 64)
        mask = torch.ones(4, 4, device="cuda", dtype=torch.bfloat16)
        with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
            torch.nn.functional.scaled_dot_product_attention(query, query, query, mask, is_causal=True)
    finally:
        recorder.patches.undo()
    assert torch.nn.functional.scaled_dot_product_attention is original
