"""`scaled_dot_product_attention` for fake CUDA tensors: what the C++ composite does for the backend that the traced GPU
would run.

Source: aten/src/ATen/native/transformers/attention.cpp (scaled_dot_product_attention, pad_last_dim, preprocess_mask,
convert_boolean_attn_mask) and aten/src/ATen/autocast_mode.cpp (its inputs are cast to the autocast dtype).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oomph.hardware.gpus import Gpu
from oomph.tracing.kernels.attention.choose import Backend, Switches, choose, described, switches

_MASK_ALIGNMENT = 16
_FLASH_ALIGNMENT = 8
_NAMES = {
    Backend.FLASH: "flash attention",
    Backend.EFFICIENT: "memory-efficient attention",
    Backend.CUDNN: "cuDNN's attention, whose workspace only has a bound",
    Backend.MATH: "ordinary operators (its math backend)",
}


def install(recorder: Any) -> None:
    """Puts the replacement where scripts and `torch.nn` call it, until the trace ends. CPU tensors and nested ones go
    to torch as they are."""
    import torch

    settings = recorder.settings

    def tell(backend: Backend) -> None:
        version = ".".join(map(str, settings.torch))
        recorder.note(
            f"scaled_dot_product_attention ran as {_NAMES[backend]}: what PyTorch {version} takes on this GPU for "
            "such tensors."
        )

    def attention(
        original: Any,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        ours = isinstance(query, torch.Tensor) and query.device.type == "cuda" and not query.is_nested
        ours = ours and not _own_way(attn_mask)
        if not ours or (is_causal and attn_mask is not None):
            more = {"enable_gqa": True} if enable_gqa else {}
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)
        return run(
            settings.gpu,
            settings.torch,
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale,
            enable_gqa,
            tell,
        )

    recorder.patches.wrap(torch.nn.functional, "scaled_dot_product_attention", attention)
    recorder.patches.wrap(torch._C._nn, "scaled_dot_product_attention", attention)  # noqa: SLF001 - torch's own name


def run(
    gpu: Gpu,
    version: tuple[int, int],
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
    tell: Callable[[Backend], None] | None = None,
) -> Any:
    """The attention of these tensors as the GPU's backend computes it; `tell` hears which that is.

    Raises RuntimeError, as PyTorch does, where the script allows no backend that can.
    """
    import torch

    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value, mask = (_cast(tensor, dtype) for tensor in (query, key, value, mask))
    grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    what = described(query, key, value, mask, dropout, causal, grouped, grad)
    backend = choose(what, gpu, version, _allowed())
    if backend is None:
        raise RuntimeError("No available kernel. Aborting execution.")
    if tell is not None:
        tell(backend)
    with torch.autocast("cuda", enabled=False):
        if backend is Backend.FLASH:
            return run_flash(query, key, value, dropout, causal, scale)
        mask = _float_mask(mask, query.dtype)
        if backend is Backend.EFFICIENT:
            mask = _aligned_mask(mask, query, key)
            kernel = torch.ops.aten._scaled_dot_product_efficient_attention  # noqa: SLF001 - torch's own name
            return kernel(query, key, value, mask, grad, dropout, causal, scale=scale)[0]
        if backend is Backend.CUDNN:
            kernel = torch.ops.aten._scaled_dot_product_cudnn_attention  # noqa: SLF001 - torch's own name
            return kernel(query, key, value, mask, grad, dropout, causal, False, scale=scale)[0]
        more = {"enable_gqa": True} if grouped else {}
        kernel = torch.ops.aten._scaled_dot_product_attention_math  # noqa: SLF001 - torch's own name
        return kernel(query, key, value, mask, dropout, causal, scale=scale, **more)[0]


def _own_way(mask: Any) -> bool:
    """Whether a mask says itself how attention with it is computed (torch.nn.attention.bias.CausalBias)."""
    import torch

    way = getattr(type(mask), "__torch_function__", None)
    disabled = torch._C._disabled_torch_function_impl  # noqa: SLF001 - what fake tensors have
    return mask is not None and way is not disabled and way != torch.Tensor.__torch_function__


def _allowed() -> Switches:
    """What the script allows, less what the installed torch cannot fake: cuDNN's attention with a mask, before 2.5."""
    import torch

    schema = torch.ops.aten._scaled_dot_product_cudnn_attention.default._schema  # noqa: SLF001
    maskable = any(argument.name == "attn_bias" for argument in schema.arguments)
    return switches() if maskable else replace(switches(), cudnn=False)


def _cast(tensor: Any, dtype: Any) -> Any:
    eligible = tensor is not None and tensor.is_floating_point() and str(tensor.dtype) != "torch.float64"
    return tensor.to(dtype) if eligible else tensor


def run_flash(query: Any, key: Any, value: Any, dropout: float, causal: bool, scale: float | None) -> Any:
    """Head sizes are filled up to a multiple of 8, and what was added is cut off the result."""
    import torch

    size = query.shape[-1]
    if scale is None:
        scale = 1.0 / math.sqrt(size)
    padding = -size % _FLASH_ALIGNMENT
    if padding:
        query, key, value = (
            torch.ops.aten.constant_pad_nd(tensor, [0, padding]) for tensor in (query, key, value)
        )
    kernel = torch.ops.aten._scaled_dot_product_flash_attention  # noqa: SLF001 - torch's own name
    result = kernel(query, key, value, dropout, causal, False, scale=scale)[0]
    return torch.ops.aten.slice(result, -1, 0, size) if padding else result


def _float_mask(mask: Any, dtype: Any) -> Any:
    """A mask of booleans as numbers to add: 0 where true, minus infinity elsewhere."""
    import torch

    if mask is None or mask.dtype != torch.bool:
        return mask
    lowest = torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device)
    return torch.ops.aten.where.ScalarSelf(mask, 0.0, lowest)


def _aligned_mask(mask: Any, query: Any, key: Any) -> Any:
    """Rows that begin at multiples of 16 elements, for every head."""
    import torch

    if mask is None:
        return None
    strides = mask.stride()
    if strides[-1] != 1 or any(stride % _MASK_ALIGNMENT for stride in strides[:-1]):
        size = mask.shape[-1]
        padding = _MASK_ALIGNMENT - size % _MASK_ALIGNMENT
        mask = torch.ops.aten.slice(torch.ops.aten.constant_pad_nd(mask, [0, padding]), -1, 0, size)
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
