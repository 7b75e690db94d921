"""Masks that are only a name for one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention.bias import CausalBias, causal_lower_right

from oomph.tracing.kernels.attention import causal_bias
from oomph.tracing.patching import Patches
from tests.tracing.programs import traced

_ATTENTION = """
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left
    bias = causal_{corner}({queries}, {keys})
    print(type(bias).__name__, tuple(bias.shape), bias.device)
    query = torch.randn(1, 2, {queries}, 64, device="cuda", dtype=torch.{dtype}, requires_grad=True)
    key = torch.randn(1, 2, {keys}, 64, device="cuda", dtype=torch.{dtype})
    mark()
    out = torch.nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=bias)
    print(tuple(out.shape))
    out.sum().backward()
    print(tuple(query.grad.shape))
"""


def _sizes(corner: str, dtype: str, queries: int = 4, keys: int = 12) -> list[int]:
    seen = traced(_ATTENTION.format(corner=corner, dtype=dtype, queries=queries, keys=keys))
    shape = (1, 2, queries, 64)
    variant = {"upper_left": 1, "lower_right": 2}[corner]
    assert seen.printed.splitlines() == [
        f"CausalBias {(variant, queries, keys)} cpu",
        str(shape),
        str(shape),
    ]
    return [size for kind, size in seen.events_after_mark if kind == "alloc"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_fused_kernels_make_no_mask(dtype: str) -> None:
    sizes = _sizes("lower_right", dtype, 20, 36)
    element = 2 if dtype == "bfloat16" else 4
    assert sizes[0] == 1 * 2 * 20 * 64 * element
    assert 20 * 36 not in sizes


def test_a_mask_is_made_where_no_fused_kernel_can() -> None:
    assert 20 * 36 in _sizes("lower_right", "float64", 20, 36)


def test_the_upper_left_corner_is_ordinary_causal_attention() -> None:
    assert _sizes("upper_left", "bfloat16", 20, 20)[0] == 2 * 20 * 64 * 2


def test_masks_are_torchs_own_again_afterwards() -> None:
    query, key = torch.randn(1, 2, 4, 64), torch.randn(1, 2, 12, 64)

    def attention() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, key, attn_mask=causal_lower_right(4, 12)
        )

    before = attention()
    with Patches() as patches:
        causal_bias.install(SimpleNamespace(patches=patches, settings=None))
        assert torch.equal(attention(), before)
    assert torch.equal(attention(), before)
    assert "__new__" not in vars(CausalBias)
