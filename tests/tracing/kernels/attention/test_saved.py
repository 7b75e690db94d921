"""What a backward pass would keep, on tensors without memory (a CUDA one needs a GPU for a graph)."""

from __future__ import annotations

import torch
from torch.nn.attention.bias import causal_upper_left

from oomph.tracing.kernels.attention import sdpa
from tests.tracing.kernels.calls import A100


def made(*shape, dtype=torch.bfloat16):
    """(batch, rows, heads, size) in memory, seen as (batch, heads, rows, size)."""
    batch, heads, rows, size = shape
    return torch.empty(batch, rows, heads, size, dtype=dtype, device="meta", requires_grad=True).transpose(
        1, 2
    )


def _kept(run):
    storages = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: storages.setdefault(tensor.untyped_storage()._cdata, tensor) is None or tensor,
        lambda kept: kept,
    ):
        run()
    return sorted(tensor.untyped_storage().nbytes() for tensor in storages.values())


def test_what_flash_keeps_for_a_backward_pass():
    # 256 tokens, 8 heads of 64: query, key, value and output 2 x 512 bytes each, the log-sum-exp 4 bytes per head; the
    # generator's state is 16 + 8 bytes.
    query, key, value = (made(2, 8, 128, 64) for _ in range(3))
    kept = _kept(lambda: sdpa.run(A100, (2, 13), query, key, value, causal=True))
    assert kept == [8, 16, 256 * 32, *[256 * 1024] * 4]


def test_what_efficient_attention_keeps():
    # The same in float32; rows count as a multiple of 32.
    query, key, value = (made(2, 8, 100, 64, dtype=torch.float32) for _ in range(3))
    kept = _kept(lambda: sdpa.run(A100, (2, 13), query, key, value))
    assert kept == [8, 8, 2 * 128 * 32, *[200 * 2048] * 4]


def test_a_mask_that_says_itself_how_it_is_used_is_left_to_torch():
    assert sdpa._own_way(causal_upper_left(4, 4))
    assert not sdpa._own_way(torch.ones(4, 4))
    assert not sdpa._own_way(None)
