"""`torch.nn.attention.bias.CausalBias`: a mask that is only a name for one, and attention with it.

Source: torch/nn/attention/bias.py (CausalBias._dispatch). Attention aligned to the lower right corner is given to the
flash or memory-efficient kernel directly, which no autocast sees; where neither can, the mask is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from oomph.tracing.kernels.attention.choose import Backend, choose, described, switches
from oomph.tracing.kernels.attention.sdpa import run_flash


def install(recorder: Any) -> None:
    """Lets such masks be made under a dispatch mode, and computes attention with them as on the traced GPU."""

    def hook(module: ModuleType) -> None:
        bias = getattr(module, "CausalBias", None)
        if bias is None:
            return
        recorder.patches.set(bias, "__new__", _new)
        recorder.patches.set(bias, "__torch_function__", classmethod(_function(recorder, bias, module)))

    recorder.patches.when_imported("torch.nn.attention.bias", hook)


def _new(kind: Any, variant: Any, seq_len_q: int, seq_len_kv: int) -> Any:
    """The tensor under the mask, which nothing reads: torch takes the three arguments for a shape, and cannot make a
    subclass by its oldest constructor while a dispatch mode looks on."""
    import torch

    return torch.Tensor._make_subclass(  # noqa: SLF001 - as torch.nn.Parameter is made
        kind, torch.empty((int(variant), seq_len_q, seq_len_kv), device="cpu")
    )


def _function(recorder: Any, bias: Any, module: ModuleType) -> Callable[..., Any]:
    before = bias.__torch_function__.__func__
    settings = recorder.settings

    def function(kind: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") != "scaled_dot_product_attention":
            return before(kind, func, types, args, kwargs)
        return _attention(settings, module.CausalVariant, *args, **(kwargs or {}))

    return function


def _attention(
    settings: Any,
    variants: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    import torch

    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    usual = torch.nn.functional.scaled_dot_product_attention
    more = {"enable_gqa": True} if enable_gqa else {}
    if attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant == variants.UPPER_LEFT:
        return usual(query, key, value, None, dropout_p, True, scale=scale, **more)
    backend = None
    grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    if query.device.type == "cuda":
        call = described(query, key, value, None, dropout_p, False, enable_gqa, grad)
        fused = replace(switches(), math=False, cudnn=False, order=(Backend.FLASH, Backend.EFFICIENT))
        backend = choose(call, settings.gpu, settings.torch, fused)
    if backend is Backend.FLASH:
        return run_flash(query, key, value, dropout_p, True, scale)
    if backend is Backend.EFFICIENT:
        kernel = torch.ops.aten._scaled_dot_product_efficient_attention  # noqa: SLF001 - the same kernel below
        return kernel(query, key, value, None, grad, dropout_p, True, scale=scale)[0]
    mask = attn_mask._materialize(query.device)  # noqa: SLF001 - torch's own name
    return usual(query, key, value, mask, dropout_p, False, scale=scale, **more)
